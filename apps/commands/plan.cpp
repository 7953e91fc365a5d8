#include "apps/commands/plan.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/nccl.h"
#include "apps/cli/output.h"
#include "core/cuda.h"
#include "job/environment.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "job/memory_advice.h"
#include "job/plan.h"
#include "train/json.h"
#include "train/process.h"

namespace accrue::app {
namespace {

using Json = nlohmann::ordered_json;

Json row_of(const Alternative& a) {
  return {{"micro_batch", a.batches.micro},
          {"sequence_piece", a.batches.piece},
          {"accum", a.batches.accumulation_steps()},
          {"remainder", a.remainder()},
          {"recompute", name_in(recompute_names(), a.recompute)},
          {"strategy", name_in(strategy_names(), a.strategy)},
          {"batch_norm_by", name_in(batch_norm_by_names(), a.batch_norm_by)},
          {"peak_bytes", a.peak.total()}};
}

std::string strategy_of(const Alternative& a) {
  const std::string strategy = name_in(strategy_names(), a.strategy);
  return a.batch_norm_by == BatchNormBy::keep
             ? strategy
             : fmt::format("{}, {}", strategy, name_in(batch_norm_by_names(), a.batch_norm_by));
}

std::string micro_batch_of(const Alternative& a) {
  return a.batches.piece > 0 ? fmt::format("{}/{}", a.batches.micro, a.batches.piece)
                             : fmt::format("{}", a.batches.micro);
}

Json to_json(const Alternative& a) {
  Json row = row_of(a);
  row["peak_by_category"] = by_category(a.peak);
  row["relative_cost"] = a.relative_cost;
  row["fits"] = a.fits;
  if (a.batch_norm_by == BatchNormBy::offload) row["host_bytes"] = a.on_host;
  return row;
}

Json to_json(const Plan& plan, const std::optional<Alternative>& yours) {
  Json result{{"recommended", row_of(*plan.recommended())}};
  if (yours) result["yours"] = to_json(*yours);
  result["alternatives"] = Json::array();
  for (const Alternative& a : plan.alternatives) result["alternatives"].push_back(to_json(a));
  return result;
}

// The recommended one first, then what was asked for.
std::vector<std::reference_wrapper<const Alternative>> in_order(
    const Plan& plan, const std::optional<Alternative>& yours) {
  std::vector<std::reference_wrapper<const Alternative>> all{*plan.recommended()};
  if (yours && !yours->is_as(*plan.recommended())) all.emplace_back(*yours);
  for (const Alternative& a : plan.alternatives)
    if (&a != plan.recommended() && !(yours && yours->is_as(a))) all.emplace_back(a);
  return all;
}

// Ranks to plan for, each on a device of its own: a plan computes nothing, so they never meet.
class PlannedRanks : public Ranks {
 public:
  PlannedRanks(int64_t count, RankExchange exchange)
      : count_(int(count)), by_nccl_(exchange == RankExchange::automatic && built_with_nccl()) {}
  int rank() const override { return 0; }
  int count() const override { return count_; }
  bool reaches(Device device) const override { return by_nccl_ || device == Device::cpu; }
  void gather(void*, const void*, size_t) override { never(); }
  void broadcast(void*, size_t, int) override { never(); }

 protected:
  void begin_exchange(Device, std::span<const Block>, std::span<const Block>) override { never(); }
  bool exchanged(Wait) override { never(); }

 private:
  [[noreturn]] static void never() { fail("ranks of a plan exchange nothing"); }
  const int count_;
  const bool by_nccl_;
};

// The command for a training in this way, within the memory that was planned for.
std::string command_to_train(const Alternative& a, Request options) {
  std::string command = options.ranks
                            ? fmt::format("mpirun -n {} accrue train", options.ranks->count())
                            : "accrue train";
  options.micro_batch = a.batches.micro;
  options.effective_batch = a.batches.effective;
  options.batches.piece = a.batches.piece;
  options.strategy = a.strategy;
  options.recompute = a.recompute;
  options.batch_norm_by = a.batch_norm_by;
  options.json.clear();
  for (const std::string& argument : arguments_of(options))
    command += fmt::format(" {}", shell_word(argument));
  return command;
}

// Where the peak is reached, and what is alive there, in lines of 80 columns.
std::string describe(const MemoryShortage& deciding) {
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

// The memory that a run may use, and whose it is where nobody has said how much.
struct Budget {
  size_t bytes;
  std::string whose{};
};

Budget budget_of(const PlanOptions& asked, const Request& options, Device device) {
  if (!asked.memory.empty()) return {parse_bytes(asked.memory)};
  check(asked.ranks == 1, "--ranks {} without --memory: expected what each of them may use",
        asked.ranks);
  if (device == Device::cpu)
    return {
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)),
        ", all that this machine has"};
  const std::string reason = cuda::unavailable_reason();
  check(reason.empty(), "--memory is needed to plan for a GPU that cannot be asked what it has: {}",
        reason);
  return {memory_for_a_run(options, device).value(), ", nine tenths of what the GPU has left"};
}

void print(const Plan& plan, const std::optional<Alternative>& yours, const Budget& budget,
           const Request& options, const MemoryShortage& deciding, Device device) {
  constexpr size_t wide_columns = 150;
  const bool wide = terminal_columns() >= wide_columns;
  const bool narrow = terminal_columns() < 70;
  const int micro_width = narrow ? 5 : 11, k_width = narrow ? 4 : 5, total_width = narrow ? 9 : 12,
            cost_width = narrow ? 4 : 5;
  const std::string each =
      options.ranks ? fmt::format(" for each of {} ranks", options.ranks->count()) : "";
  say("{} on {} in {}{}{}\n\n   {:>{}} {:>{}} {:<10}{:<17}", options.model_title(), name(device),
      format_bytes(budget.bytes), budget.whose, each, narrow ? "micro" : "micro-batch", micro_width,
      "K", k_width, "recompute", "strategy");
  if (wide)
    for (Category c : all_categories) say(" {:>11}", name(c));
  say("{:>{}} {:>4} {:>{}}\n", "total", total_width, "fits", "cost", cost_width);
  for (const Alternative& a : in_order(plan, yours)) {
    const bool is_yours = yours && yours->is_as(a);
    const char* const mark = &a == plan.recommended() ? "->" : is_yours && narrow ? "y" : "";
    say("{:<2} {:>{}} {:>{}} {:<10}{:<17}", mark, micro_batch_of(a), micro_width,
        a.batches.accumulation_steps(), k_width, name_in(recompute_names(), a.recompute),
        strategy_of(a));
    if (wide)
      for (Category c : all_categories) say(" {:>11}", format_bytes(a.peak[c]));
    say("{:>{}} {:>4} {:>{}.2f}{}\n", format_bytes(a.peak.total()), total_width,
        a.fits ? "yes" : "no", a.relative_cost, cost_width, is_yours && !narrow ? " yours" : "");
  }
  if (!wide) say("(--json has each category)\n");
  for (const std::string& reason : plan.refused) say("not possible: {}\n", reason);
  if (!plan.too_many_walks.empty()) say("not tried: {}\n", plan.too_many_walks);
  const Alternative& best = *plan.recommended();
  if (std::ranges::any_of(plan.alternatives, [](const auto& a) { return a.batches.piece > 0; }))
    say("1/512: a micro-batch of one row, in pieces of 512 tokens\n");
  if (yours)
    say("yours{}: what was asked for, {}\n", narrow ? " (y)" : "", yours->batches.describe());
  say("\ncost: estimated time, 1.00 is the whole batch at once\n");
  say("recommended: effective batch {}\n  {}\n", best.batches.describe(),
      command_to_train(best, options));
  say("its peak is {}\n", describe(deciding));
  if (best.on_host > 0)
    say("up to {} of it lie on the host while others run\n", format_bytes(best.on_host));
  if (const Alternative& least = plan.smallest(); least.peak.total() < best.peak.total())
    say("least memory: {} with\n  {}\n", format_bytes(least.peak.total()), flags(least, options));
}

// True if it is said how the windows are to be cut, and not left to the plan.
bool asks_for_batches(const Request& options) {
  return options.micro_batch != auto_micro_batch &&
         (options.given.contains("micro-batch") || options.given.contains("accum"));
}

// The nearest that would fit instead, or the least memory that would do.
std::string nearest(const Request& options, const Datasets& planned, Device device,
                    const Plan& plan) {
  const TrainingOptions wanted = options.to_plan(planned.train);
  TrainingOptions plain = wanted;
  plain.optimizer = OptimizerKind::sgd;
  plain.momentum = 0;
  plain.nesterov = false;
  const Plan all = plan_windows(wanted, planned, device, plan.memory, all_choices(wanted, device));
  if (const Alternative* a = all.recommended())
    return fmt::format("with {} it would fit", flags(*a, options));
  if (const Alternative& other = all.alternatives.front(); other.fits)
    return fmt::format("with {}, which {}, it would fit", flags(other, options),
                       facts_of(other.strategy).differs);
  const Plan stateless =
      plan_windows(plain, planned, device, plan.memory, all_choices(wanted, device));
  if (const Alternative* a = stateless.recommended())
    return fmt::format("with --optimizer sgd {} it would fit", flags(*a, options));
  const Alternative& least = all.smallest();
  return fmt::format("it would fit with --memory {} {}  # {}", least.peak.total(),
                     flags(least, options), format_bytes(least.peak.total()));
}

}  // namespace

Settings heeded_by_plan(const Settings& training) {
  const Settings with_cost = training.where(&Setting::has_cost);
  const auto is_needed = [&](const Setting& setting) {
    return std::ranges::any_of(
        with_cost, [&](const Setting& other) { return other.about.needs == setting.about.name; });
  };
  return training.where(
      [&](const Setting& setting) { return setting.has_cost() || is_needed(setting); });
}

Settings settings_of(PlanOptions& asked, Request& options) {
  Settings s;
  s.group("Machine").add(asked.memory, {.name = "memory",
                                        .decides = Decides::no_result,
                                        .help = "What a run may use",
                                        .takes = "4GiB",
                                        .unset = "all that is there",
                                        .alias = "memory-limit",
                                        .asked_by = AskedBy::most_runs});
  s.group("Several processes")
      .add(asked.ranks,
           {.name = "ranks",
            .decides = Decides::no_result,
            .help = "Plan for so many ranks of mpirun: the memory is that of the first, which "
                    "needs most",
            .range = {1, 1e6}});
  s.group("Output").add(options.json,
                        {"json", Decides::no_result, "Write the plan", writes("FILE", Path::text)});
  return s;
}

std::string plan(Request options, const PlanOptions& asked) {
  options.memory_limit = asked.memory;
  apply_threads(options);
  const Device device = wanted_device(options);
  cuda::allow_tf32(options.precision == Precision::tf32 && device == Device::cuda);
  PlannedRanks ranks(asked.ranks, options.rank_exchange);
  if (asked.ranks > 1) options.ranks = &ranks;
  const Budget budget = budget_of(asked, options, device);
  const size_t memory = budget.bytes;
  const Datasets planned =
      plan_data(load_data(options, DataUse::training, spoken()), device, memory);
  std::optional<Alternative> yours;
  if (asks_for_batches(options)) {
    const TrainingOptions training = options.training(planned.train);
    yours = as_asked(training, planned, device, memory);
    options.effective_batch = training.batches.effective;
    options.accum.reset();
  }
  options.micro_batch = auto_micro_batch;
  const TrainingOptions wanted = options.to_plan(planned.train);
  SearchSpace space = all_choices(wanted, device);
  if (options.given.contains("strategy")) space.strategies = {options.strategy};
  if (options.given.contains("recompute")) space.recomputes = {options.recompute};
  if (options.given.contains("batch-norm-by")) space.batch_norm_by = {options.batch_norm_by};
  const Plan plan = plan_windows(wanted, planned, device, memory, space);
  const auto deciding = [&](const Alternative& a) {
    return deciding_allocation(in_this_way(wanted, a), planned.train, device, &planned.test);
  };
  if (!plan.recommended()) {
    const Alternative& least = plan.smallest();
    fail(
        "nothing fits in {}: {} with micro-batches of {} ({}, recompute {}) needs {}, which is {} "
        "more; its peak is {}\n{}{}",
        format_bytes(memory), options.model_title(), least.batches.micro,
        name_in(strategy_names(), least.strategy), name_in(recompute_names(), least.recompute),
        to_string(least.peak), format_bytes(least.peak.total() - memory), describe(deciding(least)),
        nearest(options, planned, device, plan),
        plan.too_many_walks.empty() ? "" : "\nnot tried: " + plan.too_many_walks);
  }
  print(plan, yours, budget, options, deciding(*plan.recommended()), device);
  std::string json = to_json(plan, yours).dump(2) + "\n";
  if (!options.json.empty()) write_output(options.json, json);
  return json;
}

}  // namespace accrue::app
