#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/inside.h"
#include "core/profile.h"

namespace accrue {

// The table of train/profile_report.h for programs (docs/benchmarks.md has the keys).
nlohmann::ordered_json profile_json(const Profile& profile, const MachineRates& rates);
// The spans that the profile has kept of its first windows, as a file of Chrome's trace events,
// with profile_json() and `about`, which describes the run, beside them.
std::string profile_trace(const Profile& profile, const MachineRates& rates, int64_t windows,
                          nlohmann::ordered_json about);

}  // namespace accrue
