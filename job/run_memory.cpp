#include "job/run_memory.h"

#include "core/inside.h"

namespace accrue {
namespace {

// Runs two windows without accumulation and returns their peak. Subtracts the memory that was in
// use before, except the data set's.
Usage measure_baseline(const TrainingOptions& options, const Datasets& data,
                       const WindowRange& part, Device device) {
  const Usage before = ledger(device).current();
  Usage peak = peak_of_windows(options, data.train, device, &data.test, PlannedRank::first, part);
  for (Category c : all_categories) peak[c] -= before[c];
  for (const Dataset* set : {&data.train, &data.test})
    if (set->device() == device) peak[Category::data] += set->bytes();
  return peak;
}

}  // namespace

std::vector<PeakOfRun> detail::peaks_of_run(const TrainingOptions& options, Baseline run_baseline,
                                            const Datasets& data, const Usage& measured,
                                            const Usage& beside, const WindowRange& part,
                                            Device device, const Notices& notices) {
  TrainingOptions whole = options;
  whole.batches.micro = whole.batches.effective;
  whole.batches.piece = 0;
  whole.share_unit.reset();
  Usage predicted = predict_peak(options, data, device, part);
  Usage baseline = predict_peak(whole, data, device, part);
  for (Usage* usage : {&predicted, &baseline})
    for (Category c : all_categories) (*usage)[c] += beside[c];
  std::vector<PeakOfRun> peaks{
      {"this run", measured}, {"predicted", predicted}, {"no accumulation", baseline}};
  if (run_baseline == Baseline::measured) {
    try {
      peaks.push_back({"no accum., run", measure_baseline(whole, data, part, device)});
    } catch (const OutOfMemory&) {
      notices.say("\nwithout accumulation the run does not fit");
    }
  }
  return peaks;
}

}  // namespace accrue
