#include "apps/commands/memory_advice.h"

#include "apps/cli/messages.h"
#include "apps/commands/plan.h"
#include "core/cuda.h"
#include "core/limit_scope.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "train/score.h"

namespace accrue::app {

std::optional<size_t> memory_for_a_run(const Request& options, Device device) {
  if (!options.memory_limit.empty()) return parse_bytes(options.memory_limit);
  if (device != Device::cuda) return std::nullopt;
  return cuda::free_memory() / 10 * 9 + ledger(device).current().total();
}

Request with_micro_batch_chosen(const Request& options, const Datasets& data, Device device) {
  if (options.micro_batch != auto_micro_batch) return options;
  const std::optional<size_t> memory = memory_for_a_run(options, device);
  check(memory.has_value(),
        "--micro-batch auto needs --memory-limit on {}: expected how much memory to use, such as "
        "--memory-limit 64MiB",
        name(device));
  const Plan plan = plan_windows(options.to_plan(data.train), plan_data(data, device), device,
                                 *memory, only_choice(options));
  const Alternative* best = plan.recommended();
  if (!best) {
    const Alternative& least = plan.smallest();
    fail(
        "--micro-batch auto: nothing fits in {}; micro-batches of {} need {}. accrue plan shows "
        "what would fit",
        format_bytes(*memory), least.batches.micro, to_string(least.peak));
  }
  say("micro-batch auto: {} of effective batch {}, {} of {}\n", best->batches.micro,
      best->batches.describe(), format_bytes(best->peak.total()), format_bytes(*memory));
  Request chosen = options;
  chosen.micro_batch = best->batches.micro;
  chosen.effective_batch = best->batches.effective;
  chosen.batches.piece = best->batches.piece;
  return chosen;
}

std::string advice_for_training(const Request& options) {
  const Device device = wanted_device(options);
  const std::optional<size_t> memory = memory_for_a_run(options, device);
  if (!memory) return {};
  // The data set is read again, which has no place within the limit.
  const LimitScope unlimited(Device::cpu, std::nullopt);
  const Datasets planned =
      plan_data(load_data(options, DataUse::training, spoken()), device, *memory);
  const TrainingOptions wanted = options.to_plan(planned.train);
  const auto found = [&](const SearchSpace& space) {
    return plan_windows(wanted, planned, device, *memory, space);
  };
  const Plan same = found(only_choice(options)), any = found(all_choices(wanted, device));
  std::string text;
  for (const Plan* plan : {&same, &any}) {
    const Alternative* a = plan->recommended();
    if (!a) continue;
    const std::string option = flags(*a, options);
    if (text.find(option) != std::string::npos) continue;
    text += (text.empty() ? "try: " : "\n  or: ") + option;
  }
  if (!text.empty()) return text;
  const Alternative& least = any.smallest();
  return fmt::format("try: --memory-limit {} {}  # {}", least.peak.total(), flags(least, options),
                     format_bytes(least.peak.total()));
}

std::string advice_for_scoring(const Request& options) {
  const Device device = wanted_device(options), meta = meta_of(device);
  // The data set is read again, which has no place within the limit.
  const LimitScope unlimited(Device::cpu, std::nullopt);
  const Datasets planned = plan_data(load_data(options, DataUse::scoring, spoken()), device);
  const auto model = options.factory(options.sample_in(planned.train))();
  ledger(meta).reset_peak();
  const Parameters parameters = place(*model, compute_dtype(options.precision), meta, options.seed,
                                      GradientStorage::on_demand);
  // Weights are read in two pieces at most, of 64 KiB and converted.
  constexpr size_t pieces = 2 * 65536;
  const size_t loading = ledger(meta).current().total() + pieces;
  sum_scores(*model, *options.objective_on(planned.test), planned.test, 1,
             parameters.compute_dtype(), meta, nullptr, options.batches.piece);
  const size_t needed = std::max(loading, ledger(meta).peak().total());
  return fmt::format("try: --memory-limit {}  # {}, for one sample at a time", needed,
                     format_bytes(needed));
}

std::string advice_for_evaluation() {
  return "try: a larger --memory-limit; not even one sample at a time fits";
}

}  // namespace accrue::app
