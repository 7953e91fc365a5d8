#include "job/plan.h"

#include <unistd.h>

#include "core/cuda.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "job/memory_advice.h"
#include "train/process.h"

namespace accrue {
namespace {

// Ranks to plan for, each on its own device. A plan computes nothing, so they never communicate.
class PlannedRanks : public Ranks {
 public:
  explicit PlannedRanks(const RanksToPlan& ranks)
      : count_(int(ranks.count)), reach_gpus_(ranks.reach_gpus) {}
  int rank() const override { return 0; }
  int count() const override { return count_; }
  bool reaches(Device device) const override { return reach_gpus_ || device == Device::cpu; }
  void gather(void*, const void*, size_t) override { never(); }
  void broadcast(void*, size_t, int) override { never(); }

 protected:
  void begin_exchange(Device, std::span<const Block>, std::span<const Block>) override { never(); }
  bool exchanged(Wait) override { never(); }

 private:
  [[noreturn]] static void never() { fail("ranks of a plan exchange nothing"); }
  const int count_;
  const bool reach_gpus_;
};

// The memory that a run may use and, if the request has no limit, where the number comes from.
struct Budget {
  size_t bytes;
  std::string whose{};
};

Budget budget_of(const Request& request, int64_t ranks, Device device) {
  if (!request.memory_limit.empty()) return {parse_bytes(request.memory_limit)};
  check(ranks == 1, "--ranks {} without --memory: expected the memory that each rank may use",
        ranks);
  if (device == Device::cpu)
    return {
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)),
        ", all that this machine has"};
  const std::string reason = cuda::unavailable_reason();
  check(reason.empty(), "--memory is needed to plan for a GPU whose free memory is unknown: {}",
        reason);
  return {memory_for_a_run(request, device).value(), ", nine tenths of what the GPU has left"};
}

// True if the request says how to divide windows into micro-batches.
bool asks_for_batches(const Request& request) {
  return request.micro_batch != auto_micro_batch &&
         (request.given.contains("micro-batch") || request.given.contains("accum"));
}

// Names the nearest settings that would fit, or else the least memory that would be enough.
std::string nearest(const Request& request, const Datasets& planned, Device device,
                    const Plan& plan) {
  const TrainingOptions wanted = request.to_plan(planned.train);
  TrainingOptions plain = wanted;
  plain.optimizer = OptimizerKind::sgd;
  plain.momentum = 0;
  plain.nesterov = false;
  const Plan all = plan_windows(wanted, planned, device, plan.memory, all_choices(wanted, device));
  if (const Alternative* a = all.recommended())
    return fmt::format("with {} it would fit", flags_for(*a, request));
  if (const Alternative& other = all.alternatives.front(); other.fits)
    return fmt::format("with {}, which {}, it would fit", flags_for(other, request),
                       facts_of(other.strategy).differs);
  const Plan stateless =
      plan_windows(plain, planned, device, plan.memory, all_choices(wanted, device));
  if (const Alternative* a = stateless.recommended())
    return fmt::format("with --optimizer sgd {} it would fit", flags_for(*a, request));
  const Alternative& least = all.smallest();
  return fmt::format("it would fit with --memory {} {}  # {}", least.peak.total(),
                     flags_for(least, request), format_bytes(least.peak.total()));
}

// The alternatives to search: of each choice the requested one, or else all.
SearchSpace space_of(const Request& request, const TrainingOptions& wanted, Device device) {
  SearchSpace space = all_choices(wanted, device);
  if (request.given.contains("strategy")) space.strategies = {request.strategy};
  if (request.given.contains("recompute")) space.recomputes = {request.recompute};
  if (request.given.contains("batch-norm-by")) space.batch_norm_by = {request.batch_norm_by};
  return space;
}

}  // namespace

PlannedTraining detail::plan_training(Request request, const RanksToPlan& asked,
                                      const Notices& notices) {
  apply_threads(request);
  const Device device = wanted_device(request);
  check_precision(request.precision, device);
  cuda::allow_tf32(request.precision == Precision::tf32 && device == Device::cuda);
  const auto ranks = asked.count > 1 ? std::make_shared<PlannedRanks>(asked) : nullptr;
  request.ranks = ranks.get();
  const auto [memory, whose] = budget_of(request, asked.count, device);
  const Datasets planned =
      plan_data(load_data(request, DataUse::training, notices), device, memory);
  std::optional<Alternative> yours;
  if (asks_for_batches(request)) {
    const TrainingOptions training = request.training(planned.train);
    yours = as_asked(training, planned, device, memory);
    request.effective_batch = training.batches.effective;
    request.accum.reset();
  }
  request.micro_batch = auto_micro_batch;
  const TrainingOptions wanted = request.to_plan(planned.train);
  const Plan plan =
      plan_windows(wanted, planned, device, memory, space_of(request, wanted, device));
  const auto deciding = [&](const Alternative& a) {
    return deciding_allocation(in_this_way(wanted, a), planned.train, device, &planned.test);
  };
  if (!plan.recommended()) {
    const Alternative& least = plan.smallest();
    fail(
        "nothing fits in {}: {} with micro-batches of {} ({}, recompute {}) needs {}, which is {} "
        "more; its peak is {}\n{}{}",
        format_bytes(memory), request.model_title(), least.batches.micro,
        name_in(strategy_names(), least.strategy), name_in(recompute_names(), least.recompute),
        to_string(least.peak), format_bytes(least.peak.total() - memory),
        describe_peak(deciding(least)), nearest(request, planned, device, plan),
        plan.too_many_walks.empty() ? "" : "\nnot tried: " + plan.too_many_walks);
  }
  const MemoryShortage at_peak = deciding(*plan.recommended());
  return {std::move(request), device, whose, plan, yours, at_peak, ranks};
}

std::string detail::flags_for(const Alternative& a, const Request& request) {
  std::string text =
      fmt::format("--micro-batch {} --effective-batch {}", a.batches.micro, a.batches.effective);
  if (a.strategy != request.strategy)
    text += " --strategy " + name_in(strategy_names(), a.strategy);
  if (a.recompute != request.recompute)
    text += " --recompute " + name_in(recompute_names(), a.recompute);
  if (a.batch_norm_by != request.batch_norm_by)
    text += " --batch-norm-by " + name_in(batch_norm_by_names(), a.batch_norm_by);
  if (a.batches.piece != request.batches.piece)
    text += fmt::format(" --sequence-piece {}", a.batches.piece);
  return text;
}

std::string detail::command_to_train(const Alternative& a, Request request) {
  std::string command = request.ranks
                            ? fmt::format("mpirun -n {} accrue train", request.ranks->count())
                            : "accrue train";
  request.micro_batch = a.batches.micro;
  request.effective_batch = a.batches.effective;
  request.batches.piece = a.batches.piece;
  request.strategy = a.strategy;
  request.recompute = a.recompute;
  request.batch_norm_by = a.batch_norm_by;
  request.json.clear();
  for (const std::string& argument : arguments_of(request))
    command += fmt::format(" {}", shell_word(argument));
  return command;
}

std::string detail::describe_peak(const MemoryShortage& deciding) {
  const auto line = [](size_t bytes, std::string_view what) {
    return fmt::format("\n  {:>10}  {:.66}", format_bytes(bytes), what);
  };
  const AllocationInfo& last = deciding.requested;
  std::string text = fmt::format("reached in {} by", name(last.phase)) +
                     line(last.bytes, last.name()) + "\nbeside, among others,";
  for (const auto& [each, count, bytes] : deciding.largest)
    text += line(bytes, count > 1 ? fmt::format("{} x {}", count, each.name()) : each.name());
  return text;
}

}  // namespace accrue
