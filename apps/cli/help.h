#pragma once

#include <string>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
}

namespace accrue::app {

// The heading of options that a command takes from others and does nothing with.
inline constexpr const char* without_effect = "Of train, and without effect here";

// No help is asked for; that of the options that most runs need; that of every option.
enum class HelpDetail { none, most_needed, all };

// Takes "help COMMAND", "--help-all" and no arguments at all for what they mean: the arguments with
// --help, and the detail.
HelpDetail rewrite_help(std::vector<std::string>& arguments);

// Leaves out of the help of a command with these settings what most runs do not need, unless all is
// asked for. The parser's errors do not name what is left out.
void shorten_help(CLI::App& command, const Settings& settings, HelpDetail detail);

// Lines as wide as the terminal, at most 100 characters.
void wrap_help(CLI::App& app);

}  // namespace accrue::app
