#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace accrue::app {

// What may be meant by the name of an option that is none of `names`, those of the settings and
// maybe others: "--lr", "--keep-best or --keep-last"; empty if nothing is near.
std::string meant_by(const std::string& name, const std::vector<std::string>& names,
                     const Settings& settings);

// The settings that a command has as options.
using SettingsOfCommand = std::function<Settings(const CLI::App&)>;
// Prints what the command line parser has to say (help on stdout, errors on stderr), with the
// nearest known option or command for an unknown one. Returns the exit status.
int report(const CLI::App& app, const CLI::ParseError& error, const SettingsOfCommand& settings_of);

}  // namespace accrue::app
