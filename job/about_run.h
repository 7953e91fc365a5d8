#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/request.h"

namespace accrue {

// Command, settings and environment of a run, for the files about it; no batches if they never came
// to be.
nlohmann::ordered_json about_run(const Request& request, std::optional<Batches> batches,
                                 Device device);
// These and the run's results, a JSON object, as the summary of a log.
std::string summary_of(const Request& request, Device device, const std::string& results);

// A file of settings by which the run can be repeated, with outputs and checkpoints elsewhere.
std::string config_of(const Request& request);

// For TensorBoard: what a run is about, not where it is written.
std::vector<std::pair<std::string, std::string>> hyperparameters(const Request& request);

}  // namespace accrue
