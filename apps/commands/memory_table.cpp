#include "apps/commands/memory_table.h"

#include <algorithm>

#include "apps/cli/messages.h"
#include "core/cuda.h"

namespace accrue::app {

void print_memory_table(const std::vector<PeakOfRun>& peaks, const ResidentBytes& process,
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
