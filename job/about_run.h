#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/request.h"

namespace accrue {

// The command, the settings and the environment of a run, for the files that describe it. Without
// batches if the run ended before they were known.
nlohmann::ordered_json about_run(const Request& request, std::optional<Batches> batches,
                                 Device device);
// The same with the run's results (a JSON object), as the summary of a log.
std::string summary_of(const Request& request, Device device, const std::string& results);

// A file of settings that repeats the run, without the paths of its outputs and checkpoints.
std::string config_of(const Request& request);

// For TensorBoard: the settings of a run, without the paths that it writes to.
std::vector<std::pair<std::string, std::string>> hyperparameters(const Request& request);

}  // namespace accrue
