#pragma once

#include "train/training_options.h"

namespace accrue {

// An estimate of the time of one window of such data, in floating-point operations, to compare ways
// of running the same window on one machine:
//
//   cost = E * F * r + K * (b * B(strategy) + c)
//
//   E  samples             F  operations of a sample (train/flops.h)
//   K  micro-batches       r  the ratio of those that a micro-batch really runs, with what is
//                             recomputed and without what frozen layers save, to all of them;
//                             counted in a run on the meta device
//   B  bytes moved for each micro-batch: weights are read in forward and backward, gradients added
//      to (16 bytes a parameter), and what the strategy moves beside that
//      (StrategyFacts::bytes_moved); of several networks the sum over their turns
//   b  operations in the time of moving a byte, 10      c  calls and launches, 2 million
double window_cost(const TrainingOptions& options, const Dataset& data);

}  // namespace accrue
