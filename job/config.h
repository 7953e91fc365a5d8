#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/settings.h"

namespace accrue {

// Settings in a file, as TOML without sections: model = "cnn", lr = 0.01, no-shuffle = true.

// The settings that the file sets, by name and as Setting::set() takes them; of an array the values
// with commas between them. Throws Error for a file that cannot be read, with the line for what is
// not such TOML, and for a name that is none of `known`.
std::vector<std::pair<std::string, std::string>> settings_in_config(const std::string& path,
                                                                    const Settings& known);

// The settings that are set and have an effect, by which a run can be repeated: those that are
// needed for it, and the others as comments, so that they yield to what somebody asks for beside
// the file.
std::string to_toml(const Settings& settings, const std::function<bool(const Setting&)>& is_needed);

}  // namespace accrue
