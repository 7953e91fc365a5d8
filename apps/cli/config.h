#pragma once

#include <string>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
}

namespace accrue::app {

// Expands `--config FILE` in a program's arguments: the file's settings are inserted before the
// other arguments, except settings that the arguments set themselves or that the command does not
// have. Throws Error for a file that cannot be read, and for a name that is not in `known`.
std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const Settings& known, const CLI::App& app);

}  // namespace accrue::app
