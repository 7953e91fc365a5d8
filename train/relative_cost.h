#pragma once

#include "train/training_options.h"

namespace accrue {

// Estimates the time of one window of such data, in floating-point operations, to compare ways of
// running the same window on one machine:
//
//   cost = (sum of F + b * B over the kernels of the window and its step) + K * c
//
//   F  operations of products and convolutions    B  bytes that a kernel reads and writes
//   b  operations in the time that moving a byte takes, 10
//   K  micro-batches                              c  fixed cost of a micro-batch, 2 million
//
// Work (core/profile.h) provides F, minus the operations that an algorithm saves, and B. They are
// counted while two micro-batches run on the device's meta device, and added up over the turns of
// several networks. Moving a byte to the host and back (BatchNormBy::offload) costs as much as 2000
// operations.
double window_cost(const TrainingOptions& options, const Dataset& data, Device device);

// Floating-point operations in the matrix products and convolutions for one training sample, a
// tensor [1, ...] of this shape and encoding, counted on the meta device. Forward takes 2 for each
// use of a weight. Backward takes as many for the weights' gradients, and as many again for the
// input's, except in the first layer.
double training_flops_per_sample(const ModelFactory& model, const Shape& sample,
                                 Encoding encoding = Encoding::pixel);

}  // namespace accrue
