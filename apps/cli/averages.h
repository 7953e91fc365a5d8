#pragma once

#include <string>
#include <vector>

#include "apps/cli/options.h"

namespace accrue::app {

// A line for each of --beta2-half-life, --ema and --noise-scale that is asked for.
std::vector<std::string> describe_averages(const TrainingOptions& options);

// Words for a noise scale B beside an effective batch E: a run needs 1 + B / E times as many steps
// as with exact gradients, and 1 + E / B times as many samples as with the smallest batches
// (McCandlish et al. 2018, arXiv 1812.06162).
std::string describe_noise_scale(double noise_scale, int64_t effective_batch_size);

// Where --save writes the average of the weights, beside the weights: "w.ema.safetensors" for
// "w.safetensors".
std::string average_path(const std::string& path);

}  // namespace accrue::app
