#pragma once

#include "train/training_options.h"

namespace accrue {

// An estimate of the time of one window of such data, in floating-point operations, to compare ways
// of running the same window on one machine:
//
//   cost = sum over the window's kernels and its step's of (F + b * B) + K * c
//
//   F  operations of products and convolutions    B  bytes that a kernel reads and writes
//   b  operations in the time of moving a byte, 10
//   K  micro-batches                              c  what one costs beside its kernels, 2 million
//
// as Work has F, less what an algorithm spares, and B (core/profile.h), counted in a run of two
// micro-batches on the device's meta device; of several networks the sum over their turns. A byte
// that goes to the host and comes back (BatchNormBy::offload) costs as much as 2000 operations.
double window_cost(const TrainingOptions& options, const Dataset& data, Device device);

// Floating-point operations in the matrix products and convolutions for one training sample, a
// tensor [1, ...] of this shape that is encoded so, counted in a run on the meta device: 2 per
// weight and use in forward, and in backward as many for the weights and as many again for the
// input, except for the first layer's input. Everything else is memory traffic.
double training_flops_per_sample(const ModelFactory& model, const Shape& sample,
                                 Encoding encoding = Encoding::pixel);

}  // namespace accrue
