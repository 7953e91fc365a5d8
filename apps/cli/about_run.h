#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "apps/cli/options.h"

namespace accrue::app {

// Command, settings and environment of a run, for the files about it; no batches if they never came
// to be.
nlohmann::ordered_json about_run(const Options& options, std::optional<Batches> batches,
                                 Device device);

}  // namespace accrue::app
