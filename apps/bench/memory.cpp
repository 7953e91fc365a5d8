#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "apps/bench/commands.h"
#include "apps/bench/memory_runs.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "data/atomic_file.h"
#include "job/environment.h"
#include "job/machine.h"
#include "kernels/parallel.h"
#include "report/memory_comparison.h"
#include "report/page.h"
#include "report/report.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

std::string names_of_ways() {
  return fmt::format("{}", fmt::join(all_ways() | std::views::transform(&Way::name), ", "));
}

std::vector<Way> chosen_ways(const Request& options, const BenchMemoryOptions& bench,
                             const MemoryRuns& runs) {
  const bool fp32 = options.precision == Precision::fp32;
  std::vector<Way> ways;
  for (const std::string& name : bench.ways) {
    const Way* way = find_way(name);
    check(way, "--ways has '{}': expected some of {}", name, names_of_ways());
    ways.push_back(*way);
  }
  const bool has_pytorch = runs.pytorch_is_installed();
  if (!ways.empty()) {
    check(has_pytorch || std::ranges::none_of(ways, &Way::is_pytorch),
          "--ways has pytorch, which {} does not have; name an interpreter that has it with "
          "--python",
          bench.python);
    check(fp32 || std::ranges::none_of(ways, &Way::is_pytorch),
          "--ways has pytorch, which is measured in fp32, and --precision {}: expected one of them",
          name_in(precision_names(), options.precision));
    return ways;
  }
  ways = all_ways();
  const bool has_moments =
      options.optimizer == OptimizerKind::adam || options.optimizer == OptimizerKind::adamw;
  std::erase_if(ways, [&](const Way& way) {
    if (way.is_pytorch()) return !has_pytorch || !fp32;
    return (way.strategy()->sums_in_moments && !has_moments) ||
           // The loss scale of fp16 is dynamic.
           (way.strategy()->drops_gradients && options.precision == Precision::fp16) ||
           (way.strategy()->sums_in_16_bits && options.precision == Precision::fp64) ||
           (!way.is_in_given_precision() && !fp32);
  });
  return ways;
}

MemoryRows rows_of(double width, int64_t effective, const std::vector<int64_t>& micro_batches,
                   const std::vector<Way>& ways) {
  const Batches whole{effective, effective};
  MemoryRows rows{{width, whole, at_once()}};
  for (const Way& way : ways)
    if (way.split != Way::Split::always) rows.push_back({width, whole, way});
  for (const int64_t micro_batch : micro_batches)
    for (const Way& way : ways)
      if (way.split != Way::Split::never && micro_batch < effective)
        rows.push_back({width, {micro_batch, effective}, way});
  return rows;
}

// On a terminal: shows which process is running, out of how many.
class CountOfRuns {
 public:
  explicit CountOfRuns(size_t total) : total_(total) {}
  ~CountOfRuns() {
    if (terminal_) say_error("\r\033[K");
  }
  void next(const MemoryRow& row) {
    if (terminal_)
      say_error("\r\033[K[{}/{}] {} {}", ++done_, total_, row.way.name, row.batches.describe());
  }

 private:
  size_t total_, done_ = 0;
  bool terminal_ = draws_over(STDERR_FILENO);
};

// Every row runs once per round, so if the machine slows down, all rows are affected alike.
void measure(std::vector<MemoryRows>& groups, int64_t rounds, const MemoryRuns& runs) {
  size_t processes = 0;
  for (const MemoryRows& rows : groups) processes += static_cast<size_t>(rounds) * rows.size();
  CountOfRuns progress(processes);
  for (MemoryRows& rows : groups) {
    NamedTensors baseline;
    for (int64_t round = 0; round < rounds; ++round)
      for (MemoryRow& row : rows) {
        progress.next(row);
        runs.measure(row);
        if (round > 0 || row.way.is_pytorch()) continue;
        if (baseline.empty()) baseline = runs.weights();
        row.weight_difference = largest_difference(runs.weights(), baseline);
      }
  }
}

void print(const MemoryRows& rows) {
  // A wide terminal shows the categories; a narrow one shows the verdict in words on a line of its
  // own.
  constexpr size_t wide_columns = 170;
  const bool wide = terminal_columns() >= wide_columns;
  say("{:<16} {:>6} {:>4}", "way", "micro", "K");
  if (wide)
    for (Category c : all_categories) say(" {:>11}", name(c));
  say(" {:>11} {:>11} {:>10} {:>9}{}\n", "total", "RSS growth", "us/sample", "max |dw|",
      wide ? "  compared with one batch at once" : "");
  for (const MemoryRow& row : rows) {
    say("{:<16} {:>6} {:>4}", row.way.name, row.batches.micro, row.batches.accumulation_steps());
    if (wide)
      for (Category c : all_categories)
        say(" {:>11}",
            row.way.is_pytorch() && c != Category::data ? "?" : format_bytes(row.peak[c]));
    std::string words = verdict(row, rows);
    if (!wide)
      for (size_t end; (end = words.find("; ")) != std::string::npos;)
        words.replace(end, 2, "\n    ");
    say(" {:>11} {:>11} {:>10.1f} {:>9}{}{}\n", format_bytes(row.total_bytes()),
        format_bytes(row.rss_growth_bytes), row.median_us(),
        row.weight_difference ? fmt::format("{:.2g}", *row.weight_difference) : "-",
        wide ? "  " : "\n    ", words);
  }
  if (!wide) say("(--json and --csv have each category)\n");
}

void check_options(const BenchMemoryOptions& bench) {
  const int64_t largest = std::ranges::max(bench.effective_batches);
  for (const int64_t micro_batch : bench.micro_batches)
    check(0 < micro_batch && micro_batch <= largest,
          "--micro-batches has {}: expected 1 to the effective batch of {}", micro_batch, largest);
  // Checks now, so that an unwritable path fails before the measurements and not after them.
  check_output(bench.csv);
  if (bench.report.empty()) return;
  require_chart_library();
  check_output(bench.report);
}

// The memory timelines of one window: as a single batch, and in the smallest micro-batches.
nlohmann::ordered_json timelines(const MemoryRows& rows, const MemoryRuns& runs) {
  const MemoryRow* smallest = nullptr;
  for (const MemoryRow& row : rows)
    if (row.way.name == "fused" && (!smallest || row.batches.micro < smallest->batches.micro))
      smallest = &row;
  auto result = nlohmann::ordered_json::array();
  for (const MemoryRow* row : {&rows.front(), smallest}) {
    if (!row) continue;
    nlohmann::ordered_json timeline = runs.timeline(*row);
    timeline["label"] = row->way.name + " " + row->batches.describe();
    result.push_back(std::move(timeline));
  }
  return result;
}

}  // namespace

Settings settings_of(BenchMemoryOptions& bench, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(bench.effective_batches, {.name = "effective-batch",
                                     .decides = no_result,
                                     .help = "Samples per optimizer step, to compare",
                                     .range = above_zero,
                                     .alias = "effective-batches",
                                     .asked_by = AskedBy::most_runs,
                                     .elsewhere = called_batch("the samples of a step")})
      .add(bench.micro_batches, {.name = "micro-batches",
                                 .decides = no_result,
                                 .help = "Micro-batch sizes to compare",
                                 .unset = "8, 16 and 32 if less than the effective batch"})
      .add(bench.widths, {.name = "widths",
                          .decides = no_result,
                          .help = "Factors on the model's hidden sizes, to compare",
                          .range = above_zero,
                          .excludes = "width"})
      .add(bench.ways, {.name = "ways",
                        .decides = no_result,
                        .help = "What to compare with one batch at once: " + names_of_ways(),
                        .unset = "all ways"})
      .add(bench.python,
           {"python", no_result, "Python interpreter, which may have PyTorch", "PROGRAM"})
      .add(bench.steps, {.name = "steps",
                         .decides = no_result,
                         .help = "Optimizer steps of each run",
                         .range = above_zero})
      .add(bench.rounds, {.name = "rounds",
                          .decides = no_result,
                          .help = "Runs of each row, in turns; times are medians",
                          .range = above_zero})
      .add(bench.csv, {"csv", no_result, "Write the table", writes("FILE", Path::text)})
      .add(options.json, {"json", no_result, "Write the table", writes("FILE", Path::text)})
      .add(bench.report, {"report", no_result, "Write charts and tables as one web page",
                          writes("FILE.html", Path::text)});
  return s;
}

void bench_memory(const Request& given, const BenchMemoryOptions& bench) {
  check_options(bench);
  check_output(given.json);
  Request options = given;
  options.device = wanted_device(options);
  if (options.threads == 0) options.threads = thread_count();
  const MemoryRuns runs(options, bench.steps, bench.python);
  const std::vector<Way> ways = chosen_ways(options, bench, runs);
  std::vector<int64_t> micro_batches =
      bench.micro_batches.empty() ? std::vector<int64_t>{8, 16, 32} : bench.micro_batches;
  std::ranges::sort(micro_batches, std::greater());

  std::vector<MemoryRows> groups;
  const auto widths = bench.widths.empty() ? std::vector{options.network.width} : bench.widths;
  for (const double width : widths)
    for (const int64_t effective : bench.effective_batches)
      groups.push_back(rows_of(width, effective, micro_batches, ways));
  measure(groups, bench.rounds, runs);

  nlohmann::ordered_json result{{"model", options.model_title()},
                                {"data", options.data_name()},
                                {"precision", name_in(precision_names(), options.precision)},
                                {"optimizer", name_in(optimizer_names(), options.optimizer)},
                                {"device", name(*options.device)},
                                {"threads", options.threads},
                                {"steps", bench.steps},
                                {"rounds", bench.rounds}};
  for (const MemoryRows& rows : groups) {
    say("{} | {} | width {} | effective batch {} | {}, {}\n", options.model_title(),
        name_in(precision_names(), options.precision), rows.front().width,
        rows.front().batches.effective, counted(bench.steps, "optimizer step"),
        counted(bench.rounds, "round"));
    print(rows);
    for (const MemoryRow& row : rows) result["rows"].push_back(to_json(row, rows));
  }
  if (!bench.csv.empty()) write_output(bench.csv, to_csv(groups));
  if (!options.json.empty()) write_output(options.json, result.dump(2) + "\n");
  if (bench.report.empty()) return;
  for (const MemoryRows& rows : groups) result["timelines"].push_back(timelines(rows, runs));
  result["machine"] = machine_name(wanted_device(options));
  write_output(bench.report, memory_page(std::move(result)));
  say("wrote {}\n", bench.report);
}

}  // namespace accrue::app
