#include "apps/bench/memory_runs.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/child.h"
#include "job/build.h"
#include "report/window_timeline.h"

namespace accrue::app {
namespace {

std::string describe(const MemoryRow& row) {
  return fmt::format("{}, width {}, effective batch {}", row.way.name, row.width,
                     row.batches.describe());
}

// Finds a script beside the installed program, or else in the source tree it was built from.
std::string script_path(const std::string& name) {
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  const auto installed = prefix / "share/accrue/scripts" / name;
  return std::filesystem::exists(installed) ? installed.string() : source_scripts() + ("/" + name);
}

ChildResult must_succeed(const MemoryRow& row, const ChildResult& child) {
  check(child.exit_status == 0, "{}: its process failed:\n{}", describe(row), child.output);
  return child;
}

// Trains in a separate process.
void train(const MemoryRow& row, const Request& options) {
  std::vector<std::string> arguments = arguments_of(options);
  arguments.insert(arguments.begin(), "train");
  must_succeed(row, run_self(arguments));
}

}  // namespace

MemoryRuns::MemoryRuns(const Request& options, int64_t steps, std::string python)
    : options_(options), steps_(steps), python_(std::move(python)) {
  const auto temporary = std::filesystem::temp_directory_path();
  std::string pattern = (temporary / "accrue-XXXXXX").string();
  check(mkdtemp(pattern.data()) != nullptr, "cannot make a folder in {}", temporary.string());
  folder_ = pattern;
  options_.json.clear();  // the command writes its own
}

MemoryRuns::~MemoryRuns() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Request MemoryRuns::options_of(const MemoryRow& row) const {
  Request options = options_;
  options.network.width = row.width;
  options.effective_batch = row.batches.effective;
  options.micro_batch = row.batches.micro;
  const Settings settings = settings_of(options);
  for (const auto& [name, text] : row.way.settings) settings.at(name).set(text);
  return options;
}

void MemoryRuns::measure(MemoryRow& row) const {
  if (row.way.is_pytorch()) measure_pytorch(row);
  else measure_accrue(row);
}

void MemoryRuns::measure_accrue(MemoryRow& row) const {
  Request options = options_of(row);
  options.steps = options.epochs = steps_;
  options.json = file("steps.json");
  options.save = file("weights.safetensors");
  train(row, options);

  std::ifstream lines(file("steps.json"));
  bool first = steps_ > 1;
  for (std::string line; std::getline(lines, line); first = false) {
    const auto step = nlohmann::json::parse(line);
    if (!step.contains("step")) continue;  // the test score
    if (!first) row.us_per_sample.push_back(1e6 / step["samples_per_s"].get<double>());
    for (Category c : all_categories)
      row.peak[c] = step["peak_bytes"][std::string(name(c))].get<size_t>();
    row.rss_growth_bytes =
        std::max(row.rss_growth_bytes, step["peak_rss_growth_bytes"].get<size_t>());
  }
}

NamedTensors MemoryRuns::weights() const {
  return read_safetensors(file("weights.safetensors"), Category::workspace);
}

nlohmann::json MemoryRuns::timeline(const MemoryRow& row) const {
  Request options = options_of(row);
  options.steps = options.epochs = 2;
  options.memory_trace = file("trace.json");
  train(row, options);
  std::ifstream trace(file("trace.json"));
  return window_timeline(nlohmann::json::parse(trace));
}

bool MemoryRuns::pytorch_is_installed() const {
  const std::string looks_for_it =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  return run_program(python_, {"-c", looks_for_it}).exit_status == 0;
}

void MemoryRuns::measure_pytorch(MemoryRow& row) const {
  const nlohmann::json request{{"model", options_.model_name},
                               {"width", row.width},
                               {"micro_batch", row.batches.micro},
                               {"effective_batch", row.batches.effective},
                               {"steps", steps_},
                               {"device", name(*options_.device)},
                               {"threads", options_.threads},
                               {"optimizer", name_in(optimizer_names(), options_.optimizer)},
                               {"lr", options_.schedule.base}};
  const std::string script = script_path("torch_training.py");
  const ChildResult child = must_succeed(row, run_program(python_, {script, request.dump()}));
  const auto answer = nlohmann::json::parse(child.output.substr(child.output.rfind('{')));
  row.peak[Category::data] = answer["data_bytes"];
  row.untold_bytes = std::max(row.untold_bytes, answer["peak_bytes"].get<size_t>());
  row.rss_growth_bytes = std::max(row.rss_growth_bytes, answer["rss_growth_bytes"].get<size_t>());
  if (answer.contains("reserved_bytes"))
    row.reserved_bytes = answer["reserved_bytes"].get<size_t>();
  for (const double us : answer["us_per_sample"]) row.us_per_sample.push_back(us);
}

}  // namespace accrue::app
