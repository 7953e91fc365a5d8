#pragma once

#include <optional>

#include "core/ledger.h"
#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// Predicts the memory of a run by running it on a device that has neither memory nor arithmetic.

// Moves the data to where a run on `device` keeps it: to the device, unless it would take more than
// a quarter of the device's memory (or of the ledger's limit). Then it stays on the cpu and is
// copied to the device as needed.
Datasets place_data(Datasets data, Device device);

namespace detail {

// The data for plans, on the meta device that corresponds to its place in a run on `device`. With
// `memory`, assumes that the device has this many bytes.
Datasets plan_data(const Datasets& data, Device device);
Datasets plan_data(const Datasets& data, Device device, size_t memory);

// The rank whose memory is planned, among several: the first, or the rank that needs most. The
// first rank has no short micro-batch beside whole ones. Another rank's short micro-batch may need
// more memory than whole ones.
enum class PlannedRank { first, any };

// A part of a run, such as the windows that a resumed process plays. Windows are counted over all
// epochs.
struct WindowRange {
  int64_t begin = 0, end = 0;
  // All windows, if none is skipped.
  static WindowRange of(const TrainingOptions& options, int64_t samples);
};

// The ledger's peak over windows of a new Training in which every player plays, and over an
// evaluation if the run scores other data meanwhile; in `part`, or by default in the whole run.
// Includes everything else that is alive. The time for this grows with the number of different
// sizes of micro-batches, not with their number.
Usage peak_of_windows(const TrainingOptions& options, const Dataset& data, Device device,
                      const Dataset* scored = nullptr, PlannedRank planned = PlannedRank::first,
                      const std::optional<WindowRange>& part = {});

}  // namespace detail

// The peak of a run on `device`, or of a part of it, including data kept there; with several ranks,
// the first rank's peak.
Usage predict_peak(const TrainingOptions& options, const Datasets& data, Device device,
                   const std::optional<detail::WindowRange>& part = {});

namespace detail {

// The memory that suffices for every rank, with data that is already on the meta devices
// (plan_data()).
Usage planned_peak(const TrainingOptions& options, const Dataset& planned, Device device,
                   const Dataset* scored = nullptr);

// The allocation that reaches planned_peak() (`requested`), and the largest allocations that are
// alive at the same time.
MemoryShortage deciding_allocation(const TrainingOptions& options, const Dataset& planned,
                                   Device device, const Dataset* scored = nullptr);

}  // namespace detail

}  // namespace accrue
