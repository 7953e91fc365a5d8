#pragma once

#include <string>
#include <vector>

#include "core/inside.h"
#include "train/settings.h"

namespace accrue {

// What may be meant by the name of an option that is none of `names`, those of the settings and
// maybe others: "--lr", "--keep-best or --keep-last"; empty if nothing is near.
std::string meant_by(const std::string& name, const std::vector<std::string>& names,
                     const Settings& settings);

// What does here what other programs, or other commands, call `name`: "--device cuda"; empty if
// nothing does.
std::string known_elsewhere(const std::string& name, const Settings& settings);

// "train, memory or kernels"
std::string alternatives(const std::vector<std::string>& words);

}  // namespace accrue
