#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/inside.h"
#include "core/profile.h"

namespace accrue {

// The table of train/profile_report.h as JSON (docs/benchmarks.md lists the keys).
nlohmann::ordered_json profile_json(const Profile& profile, const MachineRates& rates);
// A file of Chrome's trace events with the spans that the profile kept of its first windows. It
// also holds profile_json() and `about`, which describes the run.
std::string profile_trace(const Profile& profile, const MachineRates& rates, int64_t windows,
                          nlohmann::ordered_json about);

}  // namespace accrue
