#pragma once

#include <string>

namespace CLI {
class App;
}

namespace accrue::app {

// A shell script that completes commands, options and choices. Throws Error unless the shell is
// bash, zsh or fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace accrue::app
