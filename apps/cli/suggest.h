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
// Prints the command line parser's message: help on standard output, errors on standard error. For
// an unknown option or command it suggests the nearest known one. Returns the exit status.
int report(const CLI::App& app, const CLI::ParseError& error, const SettingsOfCommand& settings_of);

}  // namespace accrue::app
