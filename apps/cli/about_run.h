#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "apps/cli/options.h"

namespace accrue::app {

// What was run, in files about a run; no batches if they never came to be.
nlohmann::ordered_json about_run(const Options& options, std::optional<Batches> batches,
                                 Device device);

}  // namespace accrue::app
