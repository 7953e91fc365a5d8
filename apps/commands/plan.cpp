#include "apps/commands/plan.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/nccl.h"
#include "apps/cli/output.h"
#include "apps/commands/train.h"
#include "train/json.h"

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

// Puts the recommended alternative first, then the requested one, then the others.
std::vector<std::reference_wrapper<const Alternative>> in_order(
    const Plan& plan, const std::optional<Alternative>& yours) {
  std::vector<std::reference_wrapper<const Alternative>> all{*plan.recommended()};
  if (yours && !yours->is_as(*plan.recommended())) all.emplace_back(*yours);
  for (const Alternative& a : plan.alternatives)
    if (&a != plan.recommended() && !(yours && yours->is_as(a))) all.emplace_back(a);
  return all;
}

void print(const PlannedTraining& planned) {
  const auto& [options, device, whose_memory, plan, yours, deciding, ranks] = planned;
  constexpr size_t wide_columns = 150;
  const bool wide = terminal_columns() >= wide_columns;
  const bool narrow = terminal_columns() < 70;
  const int micro_width = narrow ? 5 : 11, k_width = narrow ? 4 : 5, total_width = narrow ? 9 : 12,
            cost_width = narrow ? 4 : 5;
  const std::string each = ranks ? fmt::format(" for each of {} ranks", ranks->count()) : "";
  say("{} on {} in {}{}{}\n\n   {:>{}} {:>{}} {:<10}{:<17}", options.model_title(), name(device),
      format_bytes(plan.memory), whose_memory, each, narrow ? "micro" : "micro-batch", micro_width,
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
  say("its peak is {}\n", describe_peak(deciding));
  if (best.on_host > 0)
    say("up to {} of it lie on the host while others run\n", format_bytes(best.on_host));
  if (const Alternative& least = plan.smallest(); least.peak.total() < best.peak.total())
    say("least memory: {} with\n  {}\n", format_bytes(least.peak.total()),
        flags_for(least, options));
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
                                        .help = "The memory that a run may use",
                                        .takes = "4GiB",
                                        .unset = "all there is",
                                        .alias = "memory-limit",
                                        .asked_by = AskedBy::most_runs});
  s.group("Several processes")
      .add(asked.ranks,
           {.name = "ranks",
            .decides = Decides::no_result,
            .help = "Plan for this number of ranks: the memory of the first rank, which needs "
                    "most",
            .range = {1, 1e6}});
  s.group("Output").add(options.json,
                        {"json", Decides::no_result, "Write the plan", writes("FILE", Path::text)});
  return s;
}

std::string plan(const Request& options, const PlanOptions& asked) {
  Request limited = options;
  limited.memory_limit = asked.memory;
  const bool reach_gpus = options.rank_exchange == RankExchange::automatic && built_with_nccl();
  const PlannedTraining planned =
      Job({std::move(limited)}, spoken(), services_for(options)).plan({asked.ranks, reach_gpus});
  print(planned);
  std::string json = to_json(planned.plan, planned.yours).dump(2) + "\n";
  if (!options.json.empty()) write_output(options.json, json);
  return json;
}

}  // namespace accrue::app
