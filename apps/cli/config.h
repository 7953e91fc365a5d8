#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/settings.h"

namespace CLI {
class App;
}

namespace accrue::app {

// Settings in a file, as TOML: model = "cnn", lr = 0.01, no-shuffle = true.

// A program's arguments with those of `--config FILE` after it, in front of the others, without
// the settings that the arguments have themselves and those that their command does not have.
// Throws Error for a file that cannot be read, and for a name that is none of `known`.
std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const Settings& known, const CLI::App& app);

// The settings that the file sets, by name and as Setting::set() takes them. Throws as above.
std::vector<std::pair<std::string, std::string>> settings_in_config(const std::string& path,
                                                                    const Settings& known);

// The settings that are set and have an effect, by which a run can be repeated: those that are
// needed for it, and the others as comments, so that they yield to what somebody asks for beside
// the file.
std::string to_toml(const Settings& settings, const std::function<bool(const Setting&)>& is_needed);

}  // namespace accrue::app
