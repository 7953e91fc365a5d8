#include "job/memory_advice.h"

#include "core/cuda.h"
#include "core/limit_scope.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "job/plan.h"
#include "train/score.h"

namespace accrue {

std::optional<size_t> memory_for_a_run(const Request& request, Device device) {
  if (!request.memory_limit.empty()) return parse_bytes(request.memory_limit);
  if (device != Device::cuda) return std::nullopt;
  return cuda::free_memory() / 10 * 9 + ledger(device).current().total();
}

Request with_micro_batch_chosen(const Request& request, const Datasets& data, Device device,
                                const Notices& notices) {
  if (request.micro_batch != auto_micro_batch) return request;
  const std::optional<size_t> memory = memory_for_a_run(request, device);
  check(memory.has_value(),
        "--micro-batch auto needs --memory-limit on {}: expected how much memory to use, such as "
        "--memory-limit 64MiB",
        name(device));
  const Plan plan = plan_windows(request.to_plan(data.train), plan_data(data, device), device,
                                 *memory, only_choice(request));
  const Alternative* best = plan.recommended();
  if (!best) {
    const Alternative& least = plan.smallest();
    fail(
        "--micro-batch auto: nothing fits in {}; micro-batches of {} need {}. accrue plan shows "
        "what would fit",
        format_bytes(*memory), least.batches.micro, to_string(least.peak));
  }
  notices.say("micro-batch auto: {} of effective batch {}, {} of {}", best->batches.micro,
              best->batches.describe(), format_bytes(best->peak.total()), format_bytes(*memory));
  Request chosen = request;
  chosen.micro_batch = best->batches.micro;
  chosen.effective_batch = best->batches.effective;
  chosen.batches.piece = best->batches.piece;
  return chosen;
}

std::string advice_for_training(const Request& request, const Notices& notices) {
  const Device device = wanted_device(request);
  const std::optional<size_t> memory = memory_for_a_run(request, device);
  if (!memory) return {};
  // The data set is read a second time, which must not count against the limit.
  const LimitScope unlimited(Device::cpu, std::nullopt);
  const Datasets planned =
      plan_data(load_data(request, DataUse::training, notices), device, *memory);
  const TrainingOptions wanted = request.to_plan(planned.train);
  const auto found = [&](const SearchSpace& space) {
    return plan_windows(wanted, planned, device, *memory, space);
  };
  const Plan same = found(only_choice(request)), any = found(all_choices(wanted, device));
  std::string text;
  for (const Plan* plan : {&same, &any}) {
    const Alternative* a = plan->recommended();
    if (!a) continue;
    const std::string option = flags_for(*a, request);
    if (text.find(option) != std::string::npos) continue;
    text += (text.empty() ? "try: " : "\n  or: ") + option;
  }
  if (!text.empty()) return text;
  const Alternative& least = any.smallest();
  return fmt::format("try: --memory-limit {} {}  # {}", least.peak.total(),
                     flags_for(least, request), format_bytes(least.peak.total()));
}

std::string advice_for_scoring(const Request& request, const Notices& notices) {
  const Device device = wanted_device(request), meta = meta_of(device);
  // The data set is read a second time, which must not count against the limit.
  const LimitScope unlimited(Device::cpu, std::nullopt);
  const Datasets planned = plan_data(load_data(request, DataUse::scoring, notices), device);
  const auto model = request.factory(request.sample_in(planned.train))();
  ledger(meta).reset_peak();
  const Parameters parameters = place(*model, compute_dtype(request.precision), meta, request.seed,
                                      GradientStorage::on_demand);
  // Reading weights holds at most two pieces of 64 KiB: as stored, and converted.
  constexpr size_t pieces = 2 * 65536;
  const size_t loading = ledger(meta).current().total() + pieces;
  sum_scores(*model, *request.objective_on(planned.test), planned.test, 1,
             parameters.compute_dtype(), meta, nullptr, request.batches.piece);
  const size_t needed = std::max(loading, ledger(meta).peak().total());
  return fmt::format("try: --memory-limit {}  # {}, for one sample at a time", needed,
                     format_bytes(needed));
}

std::string advice_for_evaluation() {
  return "try: a larger --memory-limit; not even one sample at a time fits";
}

}  // namespace accrue
