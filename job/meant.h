#pragma once

#include <string>
#include <vector>

#include "core/inside.h"
#include "train/settings.h"

namespace accrue {

// Suggestions for the name of an unknown option, such as "--lr" or "--keep-best or --keep-last";
// empty if nothing is near. `names` are the known options: the settings and maybe others.
std::string meant_by(const std::string& name, const std::vector<std::string>& names,
                     const Settings& settings);

// The option here for a name that other programs or commands use: "--device cuda" for "gpu"; empty
// if there is none.
std::string known_elsewhere(const std::string& name, const Settings& settings);

// "train, memory or kernels"
std::string alternatives(const std::vector<std::string>& words);

}  // namespace accrue
