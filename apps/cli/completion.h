#pragma once

#include <string>

namespace CLI {
class App;
}

namespace accrue::app {

// A script for a shell that completes commands, options and choices. Throws Error for a shell other
// than bash, zsh and fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace accrue::app
