#pragma once

#include <set>
#include <string>

#include "train/settings.h"

// Few sources need the command line parser itself, whose header is slow to compile.
namespace CLI {
class App;
}

namespace accrue::app {

// Declares each setting as an option of the command: "--name", which sets it when the command line
// is parsed.
void declare(CLI::App& command, const Settings& settings);

// The settings that the command line had.
std::set<std::string> given_settings(const CLI::App& command, const Settings& settings);

// Throws Error for a setting that was given by name without one that it needs or beside one that it
// excludes, or that has no effect beside the others. A flag that was given as "no" asks for
// nothing.
void check_given(const std::set<std::string>& given, const Settings& settings);

}  // namespace accrue::app
