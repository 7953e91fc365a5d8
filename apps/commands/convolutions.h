#pragma once

#include <optional>
#include <vector>

#include "job/request.h"
#include "kernels/convolutions.h"

namespace accrue::app {

// A convolution in a model's micro-step on cuda, and cuDNN's choice for computing it.
struct ChosenConvolution {
  Convolution convolution;
  int64_t count;  // how often in a micro-step
  ConvolutionChoice choice;
  std::optional<double> seconds{};  // if it was timed
};

// The convolutions of a network for such samples, in the training that the options describe. The
// training is only predicted, but each convolution runs to be timed, until `seconds_to_time` have
// passed. If cuDNN cannot compute one, its algorithm is "none", without parts. Throws Error unless
// Device::cuda can be used.
std::vector<ChosenConvolution> chosen_convolutions(const Request& options, const SampleSpec& sample,
                                                   double seconds_to_time);

void print(const std::vector<ChosenConvolution>& convolutions);

}  // namespace accrue::app
