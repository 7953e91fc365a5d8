#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/request.h"

namespace accrue {

// Returns a line for each of --beta2-half-life, --ema and --noise-scale that the request sets.
std::vector<std::string> describe_averages(const TrainingOptions& request);

// Describes in words a noise scale B for an effective batch E, both counted in the terms of the
// loss, such as samples or tokens. Compared with exact gradients, a run needs 1 + B / E times as
// many steps. Compared with the smallest batches, it needs 1 + E / B times as many samples
// (McCandlish et al. 2018, arXiv 1812.06162).
std::string describe_noise_scale(double noise_scale, double effective, std::string_view terms);

// The file to which --save writes the average of the weights: "w.ema.safetensors" beside
// "w.safetensors".
std::string average_path(const std::string& path);

}  // namespace accrue
