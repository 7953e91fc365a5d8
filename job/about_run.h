#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "job/request.h"

namespace accrue {

// Command, settings and environment of a run, for the files about it; no batches if they never came
// to be.
nlohmann::ordered_json about_run(const Request& request, std::optional<Batches> batches,
                                 Device device);

}  // namespace accrue
