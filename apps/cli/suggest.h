#pragma once

#include <functional>
#include <string>

#include "train/settings.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace accrue::app {

// The settings that a command has as options.
using SettingsOfCommand = std::function<Settings(const CLI::App&)>;
// Prints what the command line parser has to say (help on stdout, errors on stderr), with the
// nearest known option or command for an unknown one. Returns the exit status.
int report(const CLI::App& app, const CLI::ParseError& error, const SettingsOfCommand& settings_of);

}  // namespace accrue::app
