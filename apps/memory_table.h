#pragma once

#include "apps/training.h"

namespace accrue::app {

// Prints the peak of this run, by category, beside the prediction for the same effective batch
// without accumulation; with --measure-baseline also what a fresh process measured for it.
void print_memory_table(const TrainOptions& options, Batches batches, const Datasets& data,
                        const Usage& measured, Device device);

}  // namespace accrue::app
