#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/request.h"

namespace accrue {

// A line for each of --beta2-half-life, --ema and --noise-scale that is asked for.
std::vector<std::string> describe_averages(const TrainingOptions& request);

// Words for a noise scale B beside an effective batch E, both in terms of the loss, such as samples
// or tokens: a run needs 1 + B / E times as many steps
// as with exact gradients, and 1 + E / B times as many samples as with the smallest batches
// (McCandlish et al. 2018, arXiv 1812.06162).
std::string describe_noise_scale(double noise_scale, double effective, std::string_view terms);

// Where --save writes the average of the weights, beside the weights: "w.ema.safetensors" for
// "w.safetensors".
std::string average_path(const std::string& path);

}  // namespace accrue
