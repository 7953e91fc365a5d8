#pragma once

#include <string>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
}

namespace accrue::app {

// The heading of options that a command accepts from another command and ignores.
inline constexpr const char* without_effect = "Options of train, without effect here";

// Which options the help shows: no help was requested; the options that most runs need; all
// options.
enum class HelpDetail { none, most_needed, all };

// Rewrites "help COMMAND", "--help-all" and an empty command line to arguments with --help, and
// returns which options to show.
HelpDetail rewrite_help(std::vector<std::string>& arguments);

// Hides the settings that most runs do not need from a command's help, unless all are requested.
// The parser's errors do not name hidden options.
void shorten_help(CLI::App& command, const Settings& settings, HelpDetail detail);

// Wraps the help at the width of the terminal, at most 100 columns.
void wrap_help(CLI::App& app);

}  // namespace accrue::app
