#include "report/memory_comparison.h"

#include <algorithm>

#include "core/median.h"
#include "train/json.h"
#include "train/training_options.h"

namespace accrue {
namespace {

// The bytes of a row to compare with another row. PyTorch's memory on the CPU is only known from
// outside.
size_t comparable_bytes(const MemoryRow& row, bool from_outside) {
  return from_outside ? row.rss_growth_bytes : row.bytes_without_data();
}

bool is_known_from_outside(const MemoryRow& row) {
  return row.way.is_pytorch() && !row.reserved_bytes;
}

std::string factor(double ratio) { return fmt::format("{:.2f}x", ratio); }

// Says how much less memory one batch at once needs if its gradients need not be kept; empty if it
// needs no less.
std::string beaten_at_once(const MemoryRow& row, const MemoryRows& rows) {
  if (row.batches.accumulation_steps() == 1 || row.way.is_pytorch()) return "";
  for (const MemoryRow& other : rows)
    if (other.way.name == "step-in-backward" &&
        other.bytes_without_data() < row.bytes_without_data())
      return fmt::format("; step-in-backward at once needs {} less",
                         format_bytes(row.bytes_without_data() - other.bytes_without_data()));
  return "";
}

}  // namespace

const Way& at_once() {
  static const Way way{"at-once", {{"strategy", "fused"}}, Way::Split::never};
  return way;
}

const std::vector<Way>& all_ways() {
  static const std::vector<Way> ways = [] {
    std::vector<Way> all;
    for (const StrategyFacts* strategy : all_strategies) {
      const std::string name(strategy->name);
      all.push_back({name,
                     {{"strategy", name}},
                     strategy->is_of_one_micro_batch ? Way::Split::never : Way::Split::always});
    }
    for (const Way& way : std::initializer_list<Way>{
             {"recompute-sqrt", {{"strategy", "fused"}, {"recompute", "sqrt"}}, Way::Split::either},
             {"recompute-all", {{"strategy", "fused"}, {"recompute", "all"}}, Way::Split::either},
             {"fused-bf16", {{"strategy", "fused"}, {"precision", "bf16"}}, Way::Split::either},
             {"fused-fp16", {{"strategy", "fused"}, {"precision", "fp16"}}, Way::Split::either},
             {"pytorch", {}, Way::Split::either}})
      all.push_back(way);
    return all;
  }();
  return ways;
}

const StrategyFacts* Way::strategy() const {
  for (const auto& [setting, value] : settings)
    if (setting == "strategy") return &facts_of(strategy_names().at(value));
  return nullptr;
}

const Way* find_way(const std::string& name) {
  const auto found = std::ranges::find(all_ways(), name, &Way::name);
  return found == all_ways().end() ? nullptr : &*found;
}

double MemoryRow::median_us() const { return median(us_per_sample); }

std::string verdict(const MemoryRow& row, const MemoryRows& rows) {
  const MemoryRow& baseline = rows.front();
  if (&row == &baseline) return "the baseline";
  const bool from_outside = is_known_from_outside(row);
  const size_t bytes = comparable_bytes(row, from_outside);
  const size_t without = comparable_bytes(baseline, from_outside);
  const double memory = double(without) / double(bytes);
  const double time = row.median_us() / baseline.median_us();
  const std::string duration = factor(time) + " the time";
  if (bytes >= without)
    return fmt::format("does not pay: {} more memory, {}{}", format_bytes(bytes - without),
                       duration, beaten_at_once(row, rows));
  const std::string balance = fmt::format("{} less memory for {}", factor(memory), duration);
  return (time > memory ? "does not pay: " + balance : balance) + beaten_at_once(row, rows);
}

nlohmann::ordered_json to_json(const MemoryRow& row, const MemoryRows& rows) {
  nlohmann::ordered_json json{{"width", row.width},
                              {"effective_batch", row.batches.effective},
                              {"micro_batch", row.batches.micro},
                              {"accum", row.batches.accumulation_steps()},
                              {"way", row.way.name}};
  auto& peak = json["peak_bytes"] = by_category(row.peak);
  if (row.untold_bytes > 0) peak["untold"] = row.untold_bytes;
  peak["total"] = row.total_bytes();
  json["peak_rss_growth_bytes"] = row.rss_growth_bytes;
  if (row.reserved_bytes) json["peak_reserved_bytes"] = *row.reserved_bytes;
  json["us_per_sample"] = row.median_us();
  json["largest_weight_difference"] = row.weight_difference
                                          ? nlohmann::ordered_json(*row.weight_difference)
                                          : nlohmann::ordered_json();
  json["verdict"] = verdict(row, rows);
  return json;
}

std::string to_csv(const std::vector<MemoryRows>& groups) {
  std::string text = "width,effective_batch,micro_batch,accum,way";
  for (Category c : all_categories) text += fmt::format(",{}_bytes", name(c));
  text +=
      ",untold_bytes,total_bytes,peak_rss_growth_bytes,us_per_sample,largest_weight_difference\n";
  for (const MemoryRows& rows : groups)
    for (const MemoryRow& row : rows) {
      text += fmt::format("{},{},{},{},{}", row.width, row.batches.effective, row.batches.micro,
                          row.batches.accumulation_steps(), row.way.name);
      for (Category c : all_categories) text += fmt::format(",{}", row.peak[c]);
      text +=
          fmt::format(",{},{},{},{:.3f},{}\n", row.untold_bytes, row.total_bytes(),
                      row.rss_growth_bytes, row.median_us(),
                      row.weight_difference ? fmt::format("{:.2g}", *row.weight_difference) : "");
    }
  return text;
}

}  // namespace accrue
