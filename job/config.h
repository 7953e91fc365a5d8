#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/settings.h"

namespace accrue {

// Settings in a file, as TOML without sections: model = "cnn", lr = 0.01, no-shuffle = true.

// The settings in a file: names, and values as Setting::set() takes them. The values of an array
// are joined by commas. Throws Error for a file that cannot be read, for anything else than such
// TOML (with its line), and for a name that is not in `known`.
std::vector<std::pair<std::string, std::string>> settings_in_config(const std::string& path,
                                                                    const Settings& known);

// The settings that are set and have an effect, for repeating a run. Settings that are not needed
// for that become comments, so other sources may still set them.
std::string to_toml(const Settings& settings, const std::function<bool(const Setting&)>& is_needed);

}  // namespace accrue
