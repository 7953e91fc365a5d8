#pragma once

#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The settings that make two runs the same, as text by name.

// Those of a table that decide the result; "none" for one that is not set.
Metadata deciding(const Settings& settings);

// Those that decide the result beyond rounding, the data by its content: a run that differs in one
// is another run.
Metadata run_identity(const TrainingOptions& options, const Dataset& data);
// Those that only decide in which order sums are rounded.
Metadata rounding_identity(Batches batches, Device device, int ranks);

// A line for each that differs: "lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue
