#pragma once

#include <optional>

#include "core/ledger.h"
#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// Predicts the memory of a run by running it on a device without memory or arithmetic.

// Moves the data to its place for a run on `device`: to the device, unless it would take more than
// a quarter of the device's memory (or of the ledger's limit). Then it stays on the cpu and is fed
// from there.
Datasets place_data(Datasets data, Device device);

namespace detail {

// The data for plans: on the meta device that stands for its place, or for its place in a run on
// `device` in `memory` bytes.
Datasets plan_data(const Datasets& data, Device device);
Datasets plan_data(const Datasets& data, Device device, size_t memory);

// Among several ranks: the first, or whichever needs most. The first has no short micro-batch
// beside whole ones, and another rank's may need more than they do.
enum class PlannedRank { first, any };

// A part of a run, such as what a process does that resumes it: the windows that it plays, counted
// over all epochs.
struct WindowRange {
  int64_t begin = 0, end = 0;
  // All of them, if none is skipped.
  static WindowRange of(const TrainingOptions& options, int64_t samples);
};

// The ledger's peak over windows of a new Training in which every player plays, and then over an
// evaluation if the run scores other data on its way: in `part`, or without it in the whole run. It
// includes everything else that is alive. Its time grows with the number of different sizes of
// micro-batches, not with their number.
Usage peak_of_windows(const TrainingOptions& options, const Dataset& data, Device device,
                      const Dataset* scored = nullptr, PlannedRank planned = PlannedRank::first,
                      const std::optional<WindowRange>& part = {});

}  // namespace detail

// The peak of a run on `device`, or of a part of it, of several ranks that of the first, including
// the data that lies there.
Usage predict_peak(const TrainingOptions& options, const Datasets& data, Device device,
                   const std::optional<detail::WindowRange>& part = {});

namespace detail {

// The memory in which any rank can run, for data that is on the meta devices already
// (plan_data()).
Usage planned_peak(const TrainingOptions& options, const Dataset& planned, Device device,
                   const Dataset* scored = nullptr);

// The allocation that reaches planned_peak() (`requested`), and the largest of those alive beside
// it.
MemoryShortage deciding_allocation(const TrainingOptions& options, const Dataset& planned,
                                   Device device, const Dataset* scored = nullptr);

}  // namespace detail

}  // namespace accrue
