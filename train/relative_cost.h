#pragma once

#include "train/training_options.h"

namespace accrue {

// An estimate of the time of one window of such data, in floating-point operations, to compare ways
// of running the same window on one machine:
//
//   cost = E * F + K * (b * B(strategy) + c)
//
//   E  samples             F  operations of a sample's products and convolutions, with what is
//   K  micro-batches          computed again and without what frozen layers save
//   B  bytes moved for each micro-batch: weights are read in forward and backward, gradients added
//      to (16 bytes a parameter), and what the strategy moves beside that
//      (StrategyFacts::bytes_moved); of several networks the sum over their turns
//   b  operations in the time of moving a byte, 10      c  calls and launches, 2 million
double window_cost(const TrainingOptions& options, const Dataset& data);

// Floating-point operations in the matrix products and convolutions for one training sample, a
// tensor [1, ...] of this shape that is encoded so, counted in a run on the meta device: 2 per
// weight and use in forward, and in backward as many for the weights and as many again for the
// input, except for the first layer's input. Everything else is memory traffic.
double training_flops_per_sample(const ModelFactory& model, const Shape& sample,
                                 Encoding encoding = Encoding::pixel);

}  // namespace accrue
