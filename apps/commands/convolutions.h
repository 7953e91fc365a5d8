#pragma once

#include <optional>
#include <vector>

#include "job/request.h"
#include "kernels/convolutions.h"

namespace accrue::app {

// A convolution of a model's micro-step on cuda, and how cuDNN computes it.
struct ChosenConvolution {
  Convolution convolution;
  int64_t count;  // in a micro-step
  ConvolutionChoice choice;
  std::optional<double> seconds{};  // if it was timed
};

// The convolutions of such a network in the training that the options ask for. The training is only
// predicted, but each convolution runs, to time it, until so many seconds are over. Where cuDNN has
// no way to compute one, its algorithm is "none", without parts. Throws Error unless Device::cuda
// can be used.
std::vector<ChosenConvolution> chosen_convolutions(const Request& options, const SampleSpec& sample,
                                                   double seconds_to_time);

void print(const std::vector<ChosenConvolution>& convolutions);

}  // namespace accrue::app
