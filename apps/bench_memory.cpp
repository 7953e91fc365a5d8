#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/child.h"
#include "apps/training.h"
#include "data/atomic_file.h"
#include "data/safetensors.h"

namespace accrue::app {
namespace {

// A folder for the children's files, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "accrue-XXXXXX").string();
    check(mkdtemp(pattern.data()) != nullptr, "cannot make a folder in {}",
          std::filesystem::temp_directory_path().string());
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Row {
  Batches batches;
  Usage peak;
  size_t peak_rss_bytes;
  double us_per_sample;
  double weight_difference;  // largest, against the run without accumulation
};

std::vector<std::string> train_arguments(const TrainOptions& o, int64_t micro_batch,
                                         int64_t steps) {
  std::vector<std::string> arguments{"train",
                                     "--model",
                                     name(o.model.kind),
                                     "--data",
                                     o.data,
                                     "--dropout",
                                     fmt::format("{}", o.model.dropout),
                                     "--init-scheme",
                                     name_in(init_scheme_names(), o.model.init),
                                     "--optimizer",
                                     name_in(optimizer_names(), o.optimizer),
                                     "--lr",
                                     fmt::format("{}", o.schedule.base),
                                     "--strategy",
                                     name_in(strategy_names(), o.strategy),
                                     "--seed",
                                     std::to_string(o.seed),
                                     "--device",
                                     name_in(device_names(), o.device),
                                     "--cuda-graphs",
                                     name_in(graphs_names(), o.cuda_graphs),
                                     "--threads",
                                     std::to_string(o.threads),
                                     "--effective-batch",
                                     std::to_string(o.effective_batch.value()),
                                     "--micro-batch",
                                     std::to_string(micro_batch),
                                     "--steps",
                                     std::to_string(steps),
                                     "--epochs",
                                     std::to_string(steps)};
  if (!o.data_dir.empty()) arguments.insert(arguments.end(), {"--data-dir", o.data_dir});
  if (!o.memory_limit.empty())
    arguments.insert(arguments.end(), {"--memory-limit", o.memory_limit});
  return arguments;
}

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].second.span<float>(), y = b[i].second.span<float>();
    for (size_t j = 0; j < x.size(); ++j)
      largest = std::max(largest, std::abs(double(x[j]) - double(y[j])));
  }
  return largest;
}

// Trains in a fresh process; the JSON lines give the ledger's peak and the time of each step.
Row measure(const TrainOptions& options, int64_t micro_batch, int64_t steps,
            const ScratchFolder& scratch, NamedTensors& weights) {
  auto arguments = train_arguments(options, micro_batch, steps);
  const std::string json = scratch.file("steps.json"), saved = scratch.file("weights.safetensors");
  arguments.insert(arguments.end(), {"--json", json, "--save", saved});
  const ChildResult child = run_self(arguments);
  check(child.exit_status == 0, "micro-batch {}: the training process failed:\n{}", micro_batch,
        child.output);

  Row row{{micro_batch, *options.effective_batch}, {}, child.peak_rss_bytes, 0, 0};
  std::vector<double> times;
  std::ifstream lines(json);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    times.push_back(1e6 / step["samples_per_s"].get<double>());
    for (Category c : all_categories)
      row.peak[c] = step["peak_bytes"][std::string(name(c))].get<size_t>();
  }
  // The first step pays for what later ones reuse.
  if (times.size() > 1) times.erase(times.begin());
  std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
  row.us_per_sample = times[times.size() / 2];
  weights = read_safetensors(saved);
  return row;
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json{{"micro_batch", row.batches.micro},
                              {"accum", row.batches.accumulation_steps()}};
  for (Category c : all_categories) json["peak_bytes"][std::string(name(c))] = row.peak[c];
  json["peak_bytes"]["total"] = row.peak.total();
  json["peak_rss_bytes"] = row.peak_rss_bytes;
  json["us_per_sample"] = row.us_per_sample;
  json["largest_weight_difference"] = row.weight_difference;
  return json;
}

std::string to_csv(const std::vector<Row>& rows) {
  std::string text = "micro_batch,accum";
  for (Category c : all_categories) text += fmt::format(",{}_bytes", name(c));
  text += ",total_bytes,peak_rss_bytes,us_per_sample,largest_weight_difference\n";
  for (const Row& row : rows) {
    text += fmt::format("{},{}", row.batches.micro, row.batches.accumulation_steps());
    for (Category c : all_categories) text += fmt::format(",{}", row.peak[c]);
    text += fmt::format(",{},{},{:.3f},{:.3g}\n", row.peak.total(), row.peak_rss_bytes,
                        row.us_per_sample, row.weight_difference);
  }
  return text;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{:>7} {:>4}", "micro", "K");
  for (Category c : all_categories) fmt::print(" {:>11}", name(c));
  fmt::print(" {:>11} {:>11} {:>10} {:>10}\n", "total", "RSS", "us/sample", "max |dw|");
  for (const Row& row : rows) {
    fmt::print("{:>7} {:>4}", row.batches.micro, row.batches.accumulation_steps());
    for (Category c : all_categories) fmt::print(" {:>11}", format_bytes(row.peak[c]));
    fmt::print(" {:>11} {:>11} {:>10.1f} {:>10.2g}\n", format_bytes(row.peak.total()),
               format_bytes(row.peak_rss_bytes), row.us_per_sample, row.weight_difference);
  }
}

}  // namespace

void add_memory_bench_options(CLI::App& command, TrainOptions& options, BenchMemoryOptions& bench) {
  command.add_option("--effective-batch", options.effective_batch, "Samples per optimizer step")
      ->required();
  command.add_option("--micro-batches", bench.micro_batches, "Micro-batch sizes to compare")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--steps", bench.steps, "Optimizer steps of each run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_strategy_option(command, options);
  add_optimizer_kind_option(command, options);
  command.add_option("--lr", options.schedule.base, "Learning rate")->capture_default_str();
  command.add_option("--csv", bench.csv, "Write the table")->type_name("FILE");
  command.add_option("--json", options.json, "Write the table")->type_name("FILE");
}

void bench_memory(const TrainOptions& options, const BenchMemoryOptions& bench) {
  const int64_t effective = options.effective_batch.value();
  for (const int64_t micro_batch : bench.micro_batches)
    check(0 < micro_batch && micro_batch <= effective,
          "--micro-batches has {}: expected 1 to the effective batch of {}", micro_batch,
          effective);
  std::vector<int64_t> sizes = bench.micro_batches;
  std::ranges::sort(sizes, std::greater());
  if (sizes.empty() || sizes.front() != effective) sizes.insert(sizes.begin(), effective);

  const ScratchFolder scratch;
  std::vector<Row> rows;
  NamedTensors baseline, weights;
  for (const int64_t micro_batch : sizes) {
    rows.push_back(measure(options, micro_batch, bench.steps, scratch, weights));
    if (baseline.empty()) baseline = weights;
    rows.back().weight_difference = largest_difference(weights, baseline);
  }
  fmt::print(
      "{} | effective batch {} | {} optimizer steps; the first row is without accumulation\n",
      name(options.model.kind), effective, bench.steps);
  print(rows);
  if (!bench.csv.empty()) write_text_atomically(bench.csv, to_csv(rows));
  if (!options.json.empty()) {
    nlohmann::ordered_json result{{"model", name(options.model.kind)},
                                  {"effective_batch", effective}};
    for (const Row& row : rows) result["rows"].push_back(to_json(row));
    write_text_atomically(options.json, result.dump(2) + "\n");
  }
}

}  // namespace accrue::app
