#pragma once

#include <string>
#include <vector>

#include "job/notices.h"
#include "train/memory_prediction.h"

namespace accrue::detail {

// Whether the peak without accumulation is predicted, or measured (--measure-baseline).
enum class Baseline { predicted, measured };

struct PeakOfRun {
  std::string run;  // "this run"
  Usage peak;
};
// The measured peak of this run, by category, and two predictions: for this run and for the same
// effective batch without accumulation. With Baseline::measured, also runs the latter and measures
// its peak. `beside` is the memory that observers held during the run; `part` are the windows of
// the run that were measured.
std::vector<PeakOfRun> peaks_of_run(const TrainingOptions& options, Baseline run_baseline,
                                    const Datasets& data, const Usage& measured,
                                    const Usage& beside, const WindowRange& part, Device device,
                                    const Notices& notices);

// The process's resident memory as the system counts it: its peak, and its size before the data was
// loaded.
struct ResidentBytes {
  size_t peak, before;
};

}  // namespace accrue::detail
