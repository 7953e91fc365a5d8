#pragma once

#include "train/memory_prediction.h"

namespace accrue::app {

// --measure-baseline
enum class Baseline { predicted, measured };

// Prints the peak of this run, by category, beside the prediction of it and of the same effective
// batch without accumulation; if wanted, also what a run of that really needs. `beside` is
// what the program itself has held there meanwhile.
void print_memory_table(const TrainingOptions& options, Baseline run_baseline, const Datasets& data,
                        const Usage& measured, const Usage& beside, Device device);

}  // namespace accrue::app
