#pragma once

#include <string>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
}

namespace accrue::app {

// A program's arguments with those of `--config FILE` after it, in front of the others, without
// the settings that the arguments have themselves and those that their command does not have.
// Throws Error for a file that cannot be read, and for a name that is none of `known`.
std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const Settings& known, const CLI::App& app);

}  // namespace accrue::app
