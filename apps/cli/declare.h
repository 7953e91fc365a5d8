#pragma once

#include <set>
#include <string>

#include "train/settings.h"

// Few sources need the command line parser itself, whose header is slow to compile.
namespace CLI {
class App;
}

namespace accrue::app {

// Declares each setting as an option "--name" of the command. Parsing the command line sets it.
void declare(CLI::App& command, const Settings& settings);

// The settings that the command line set.
std::set<std::string> given_settings(const CLI::App& command, const Settings& settings);

}  // namespace accrue::app
