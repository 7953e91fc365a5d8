#pragma once

#include "apps/options.h"
#include "data/dataset.h"
#include "data/safetensors.h"

namespace accrue::app {

// --checkpoint-dir, --checkpoint-every, --keep, --resume.
void add_checkpoint_options(CLI::App& command, TrainOptions& options);

// Which options make two runs the same, as text by the option's name.

// Those that decide what is computed, and the data by its content: a run that differs in one is
// another run. `schedule` is Schedule::describe(), which names the length of the run where that
// matters.
Metadata decisive_options(const TrainOptions& options, Batches batches, const Dataset& train,
                          const std::string& schedule);
// Those that decide in which order sums are rounded, and no more.
Metadata rounding_options(Batches batches, Device device);

// One line for each that differs: "--lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue::app
