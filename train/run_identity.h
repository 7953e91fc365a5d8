#pragma once

#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The settings that must agree for two runs to be the same, as text by name.

// The settings of a table that decide the result; "none" for one that is not set.
Metadata deciding(const Settings& settings);

// The settings that decide the result beyond rounding, including the data, by its content. A run
// that differs in one of them is another run.
Metadata run_identity(const TrainingOptions& options, const Dataset& data);
// The settings that only decide in which order sums are rounded.
Metadata rounding_identity(Batches batches, Device device, int ranks);

// A line for each setting that differs: "lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue
