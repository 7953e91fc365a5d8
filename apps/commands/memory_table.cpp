#include "apps/commands/memory_table.h"

#include <algorithm>

#include "apps/cli/messages.h"
#include "core/cuda.h"

namespace accrue::app {
namespace {

// The peak of two windows without accumulation, really run beside what is still alive, which is
// then left out (but for the data set itself).
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

std::vector<PeakOfRun> peaks_of_run(const TrainingOptions& options, Baseline run_baseline,
                                    const Datasets& data, const Usage& measured,
                                    const Usage& beside, const WindowRange& part, Device device) {
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
      say("\nwithout accumulation the run does not fit\n");
    }
  }
  return peaks;
}

void print_memory_table(const std::vector<PeakOfRun>& peaks, const Resident& process,
                        Batches batches, Device device) {
  say("\npeak memory on {}, effective batch {}\n{:<14}", name(device), batches.describe(), "");
  const auto cell = [](std::string_view title, std::string_view text) {
    say("  {:>{}}", text, std::max<size_t>(title.size(), 10));
  };
  for (const auto& [title, usage] : peaks) cell(title, title);
  say("\n");
  const auto row = [&](std::string_view title, auto&& bytes_of) {
    say("  {:<12}", title);
    for (const auto& [column, usage] : peaks) cell(column, format_bytes(bytes_of(usage)));
    say("\n");
  };
  for (Category c : all_categories) row(name(c), [&](const Usage& usage) { return usage[c]; });
  row("total", [](const Usage& usage) { return usage.total(); });
  const auto without_data = [](const Usage& usage) {
    return usage.total() - usage[Category::data];
  };
  row("without data", without_data);
  const Usage &measured = peaks[0].peak, &predicted = peaks[1].peak, &baseline = peaks[2].peak;
  say("{}\n", predicted.bytes == measured.bytes ? "predicted to the byte"
                                                : "the prediction is off: please report this run");
  say("the process took {}{} at its peak, {} of them before it read the data\n",
      format_bytes(process.peak), device == Device::cuda ? " of the host" : "",
      format_bytes(process.before));
  if (device == Device::cuda) {
    const Reserve reserve = cuda::blocks().statistics();
    say("the device's memory: {} reserved in {} segments, {} of it allocated,\n"
        "  largest free block {}, fragmentation {:.0f} %\n",
        format_bytes(reserve.reserved), reserve.segments, format_bytes(reserve.allocated),
        format_bytes(reserve.largest_free), 100 * reserve.fragmentation());
  }
  if (batches.accumulation_steps() == 1) {
    say("nothing was accumulated: the effective batch is one micro-batch\n");
    return;
  }
  const double ratio = double(without_data(baseline)) / double(without_data(measured));
  if (ratio > 1.005)
    say("accumulation needs {:.2f}x less than the same batch at once, without data\n", ratio);
  else
    say("accumulation saves nothing here: {} outweigh the activations\n",
        "parameters, gradients and moments");
}

}  // namespace accrue::app
