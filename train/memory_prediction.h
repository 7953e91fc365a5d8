#pragma once

#include "core/ledger.h"
#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The memory of a run before it runs, by running it on a device without memory or arithmetic.

// Moves the data to where it is to lie for a run on `device`: there, unless it would take more than
// a quarter of the device's memory (or of the ledger's limit); then it stays on the cpu, from where
// it is fed.
Datasets place_data(Datasets data, Device device);
// The data on the meta devices that stand for where it lies, or would lie in a run on `device` in
// `memory` bytes: what plans are made with.
Datasets plan_data(const Datasets& data, Device device);
Datasets plan_data(const Datasets& data, Device device, size_t memory);

// The ledger's peak over two whole windows of a new Training, in which every player plays,
// everything else alive included; and then over an evaluation, if the run scores other data on its
// way.
Usage peak_of_windows(const TrainingOptions& options, const Dataset& data, Device device,
                      const Dataset* scored = nullptr);

// The peak of a run on `device`, with what of the data lies there.
Usage predict_peak(const TrainingOptions& options, const Datasets& data, Device device);
// As above, for data that is on the meta devices already (plan_data()). Takes time for the sizes of
// micro-batches that differ, not for their number.
Usage planned_peak(const TrainingOptions& options, const Dataset& planned, Device device,
                   const Dataset* scored = nullptr);

// The allocation that reaches planned_peak() (`requested`), and the largest of those that are alive
// beside it.
MemoryShortage deciding_allocation(const TrainingOptions& options, const Dataset& planned,
                                   Device device, const Dataset* scored = nullptr);

}  // namespace accrue
