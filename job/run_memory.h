#pragma once

#include <string>
#include <vector>

#include "job/notices.h"
#include "train/memory_prediction.h"

namespace accrue::detail {

// --measure-baseline
enum class Baseline { predicted, measured };

struct PeakOfRun {
  std::string run;  // "this run"
  Usage peak;
};
// The measured peak of this run, by category, beside the prediction of it and of the same effective
// batch without accumulation; if wanted, also what a run of that really needs. `beside` is what was
// held there meanwhile by what looks on, and `part` what of the run it was.
std::vector<PeakOfRun> peaks_of_run(const TrainingOptions& options, Baseline run_baseline,
                                    const Datasets& data, const Usage& measured,
                                    const Usage& beside, const WindowRange& part, Device device,
                                    const Notices& notices);

// What the system counts as the process's: at its peak, and before the data was loaded.
struct ResidentBytes {
  size_t peak, before;
};

}  // namespace accrue::detail
