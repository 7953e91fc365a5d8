#include "train/training_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "accumulate/ranks.h"
#include "core/build.h"
#include "core/ceil_div.h"
#include "core/inside.h"

namespace accrue {

Settings settings_of(TrainingOptions& o) { return detail::table_of(o); }

const std::map<std::string, Precision>& detail::precision_names() {
  static const std::map<std::string, Precision> names{{"fp32", Precision::fp32},
                                                      {"tf32", Precision::tf32},
                                                      {"bf16", Precision::bf16},
                                                      {"fp16", Precision::fp16},
                                                      {"fp64", Precision::fp64}};
  return names;
}

const std::map<std::string, Strategy>& detail::strategy_names() {
  static const std::map<std::string, Strategy> names = [] {
    std::map<std::string, Strategy> all;
    for (size_t i = 0; i < all_strategies.size(); ++i)
      all.emplace(all_strategies[i]->name, static_cast<Strategy>(i));
    return all;
  }();
  return names;
}

std::string detail::help_of_strategies() {
  std::string help;
  for (const StrategyFacts* strategy : all_strategies)
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", strategy->name, strategy->help);
  return help;
}

const std::map<std::string, Pack>& detail::pack_names() {
  static const std::map<std::string, Pack> names{
      {"auto", Pack::where_it_pays}, {"on", Pack::on}, {"off", Pack::off}};
  return names;
}

const std::map<std::string, Recompute>& detail::recompute_names() {
  static const std::map<std::string, Recompute> names{
      {"none", Recompute::none}, {"sqrt", Recompute::sqrt}, {"all", Recompute::all}};
  return names;
}

const std::map<std::string, OnOom>& detail::on_oom_names() {
  static const std::map<std::string, OnOom> names{{"fail", OnOom::fail}, {"split", OnOom::split}};
  return names;
}

const std::map<std::string, OnOverflow>& detail::on_overflow_names() {
  static const std::map<std::string, OnOverflow> names{
      {"skip-window", OnOverflow::skip_window},
      {"drop-micro-batch", OnOverflow::drop_micro_batch},
      {"stop", OnOverflow::stop}};
  return names;
}

const std::map<std::string, Overlap>& detail::rank_overlap_names() {
  static const std::map<std::string, Overlap> names{
      {"auto", Overlap::automatic}, {"on", Overlap::on}, {"off", Overlap::off}};
  return names;
}

const std::map<std::string, Graphs>& detail::graphs_names() {
  static const std::map<std::string, Graphs> names{{"on", Graphs::on}, {"off", Graphs::off}};
  return names;
}

const std::map<std::string, Order>& detail::order_names() {
  static const std::map<std::string, Order> names{{"alternating", Order::alternating},
                                                  {"simultaneous", Order::simultaneous}};
  return names;
}

const std::map<std::string, BatchNormOver>& detail::batch_norm_names() {
  static const std::map<std::string, BatchNormOver> names{{"micro", BatchNormOver::micro_batch},
                                                          {"window", BatchNormOver::window}};
  return names;
}

const std::map<std::string, BatchNormBy>& detail::batch_norm_by_names() {
  static const std::map<std::string, BatchNormBy> names{
      {"keep", BatchNormBy::keep}, {"offload", BatchNormBy::offload}, {"walk", BatchNormBy::walk}};
  return names;
}

std::string Batches::describe() const {
  const int64_t whole = effective / micro, rest = effective % micro;
  const std::string cut = piece > 0 ? fmt::format(", in pieces of {}", piece) : "";
  if (whole == 0) return fmt::format("{} (1 x {}{})", effective, effective, cut);
  if (rest == 0) return fmt::format("{} ({} x {}{})", effective, micro, whole, cut);
  return fmt::format("{} ({} x {} + {}{})", effective, micro, whole, rest, cut);
}

bool TrainingOptions::is_first_rank() const { return !ranks || ranks->rank() == 0; }

Metadata TrainingOptions::weights_metadata() const {
  Metadata all = about_weights;
  all["accrue"] = version();
  return all;
}

std::vector<PlayerOptions> TrainingOptions::networks(const ObjectivePtr& to) const {
  if (!players.empty()) return players;
  return {{.name = "",
           .model = model,
           .loss = [to](const Networks& networks, const Samples& samples,
                        const Pass& pass) -> Loss { return to->cost(networks[""], samples, pass); },
           .of_window = to->is_of_window() ? to : nullptr,
           .step = *this,
           .terms = to->terms(),
           .weight = [to](const Samples& samples) { return to->weight(samples); }}};
}

ScheduleOptions TrainingOptions::schedule_of(const PlayerOptions& network, int64_t samples) const {
  ScheduleOptions own = network.step.schedule;
  own.total = total_steps(samples) / network.every * network.times;
  return own;
}

namespace {

// A window cannot be repeated once other ranks have its gradients. If micro-batches take turns, no
// backward is the last.
bool can_overlap(const TrainingOptions& o) {
  return o.on_oom == OnOom::fail && facts_of(o.strategy).has_final_gradients &&
         !o.shard_optimizer && o.batch_norm == BatchNormOver::micro_batch;
}

}  // namespace

Overlap TrainingOptions::chosen_overlap(Device device) const {
  const bool wanted =
      rank_overlap == Overlap::on || (rank_overlap == Overlap::automatic && device == Device::cpu);
  return wanted && can_overlap(*this) ? Overlap::on : Overlap::off;
}

ObjectivePtr TrainingOptions::objective_for(const Dataset& data) const {
  const ObjectivePtr chosen = objective ? objective : objective_of(data);
  chosen->check_data(data);
  return chosen;
}

int64_t TrainingOptions::total_steps(int64_t samples) const {
  const int64_t all = epochs * ceil_div(samples, batches.effective);
  return steps ? std::min(*steps, all) : all;
}

namespace {

void check_players(const TrainingOptions& o) {
  check(o.freeze.empty(), "{} players are trained whole: expected nothing to freeze, not '{}'",
        o.players.size(), fmt::join(o.freeze, ","));
  check(o.model == nullptr,
        "the options of a training have a model and {} players: expected one or the other",
        o.players.size());
  for (const PlayerOptions& player : o.players)
    check(player.model != nullptr && player.loss != nullptr,
          "player '{}' has no {}: expected a function that returns a {}", player.name,
          player.model ? "loss" : "model", player.model ? "loss" : "new one");
  check(std::ranges::any_of(o.players, [](const PlayerOptions& p) { return p.every == 1; }),
        "every player sits windows out: expected one that plays in each");
}

}  // namespace

void detail::check_options(const TrainingOptions& o) {
  if (!o.players.empty()) check_players(o);
  else
    check(o.model != nullptr,
          "the options of a training have no model: expected a function that returns a new one");
  const auto [micro, effective, piece] = o.batches;
  check(piece >= 0, "samples in pieces of {}: expected at least 1, or 0 for whole samples", piece);
  check(1 <= micro && micro <= effective,
        "micro-batches of {} samples for an effective batch of {}: expected at least 1, and no "
        "more than the effective batch",
        micro, effective);
  const int64_t ranks = o.ranks ? o.ranks->count() : 1;
  const int64_t least = ceil_div(effective, ranks);
  const StrategyFacts& strategy = facts_of(o.strategy);
  check(!strategy.is_of_one_micro_batch || micro >= least,
        "{} steps during the backward of a single micro-batch, but the effective "
        "batch is {}{}: expected micro-batches of {}, or strategy moments or fused",
        strategy.name, o.batches.describe(), ranks > 1 ? fmt::format(" on {} ranks", ranks) : "",
        least);
  check(o.rank_overlap != Overlap::on || can_overlap(o),
        "to exchange gradients during the last backward of a window, it must not be repeated, "
        "gradients must be accumulated, and ranks must own all of the optimizer: expected no "
        "overlap, or on-oom fail, strategy fused, no shards and batch-norm micro");
  check(!strategy.sums_in_moments || !o.shard_optimizer,
        "strategy {} adds up in the optimizer's state, so every rank needs all of it: expected no "
        "shards, or another strategy",
        strategy.name);
  check(!strategy.sums_in_16_bits || o.precision != Precision::fp64,
        "strategy {} rounds the sum of gradients to 16 bits, and precision fp64 rounds nothing "
        "below float64: expected strategy {}, or another precision",
        strategy.name, name_in(strategy_names(), reference_strategy()));
}

void detail::check_precision(Precision precision, Device device) {
  check(precision != Precision::fp64 || !plans_for_cuda(device),
        "precision fp64 runs on the cpu, but this run is on cuda: expected precision fp32, tf32, "
        "bf16 or fp16, or device cpu");
}

}  // namespace accrue
