#include "apps/run_log.h"

#include "apps/environment.h"
#include "data/atomic_file.h"

namespace accrue::app {
namespace {

namespace fs = std::filesystem;

fs::path prepared(const TrainOptions& options) {
  require_event_files();
  check(options.log_histograms == 0 || !drops_gradients(options.strategy),
        "--log-histograms shows gradients, which --strategy {} does not keep: expected fused or "
        "separate",
        name_in(strategy_names(), options.strategy));
  const fs::path directory(options.log_dir);
  std::error_code error;
  fs::create_directories(directory, error);
  check(!error && fs::is_directory(directory), "--log-dir {}: {}, expected a directory to write to",
        options.log_dir, error ? error.message() : "not a directory");
  check(options.resume || !fs::exists(directory / "metrics.jsonl"),
        "--log-dir {} holds the log of another run: expected a new or empty directory",
        options.log_dir);
  // A place that cannot be written to is an error now, not after the training.
  check_writable(directory / "summary.json");
  return directory;
}

// The numbers in a line, by the names of TensorBoard's tags: "peak_bytes/total".
EventFile::Tagged<double> scalars_of(const RunLog::Json& line, const std::string& group) {
  EventFile::Tagged<double> scalars;
  for (const auto& [key, value] : line.items()) {
    if (value.is_object())
      for (auto& scalar : scalars_of(value, key)) scalars.push_back(std::move(scalar));
    else if (value.is_number() && key != "step")
      scalars.emplace_back(group + "/" + key, value.get<double>());
  }
  return scalars;
}

}  // namespace

RunLog::RunLog(const TrainOptions& options, int64_t steps_before)
    : options_(options),
      directory_(prepared(options)),
      events_(directory_, options.resume ? steps_before + 1 : 0),
      metrics_(directory_ / "metrics.jsonl", AppendFile::Existing::continued),
      begun_(now()),
      last_step_(steps_before) {}

void RunLog::write_line(const Json& line) {
  const std::string text = line.dump() + "\n";
  metrics_.append(std::as_bytes(std::span(text)));
}

void RunLog::step(const Json& line) {
  write_line(line);
  last_step_ = line.at("step");
  events_.add(last_step_, scalars_of(line, "train"));
}

void RunLog::score(const Json& line) {
  write_line(line);
  events_.add(last_step_, scalars_of(line, "test"));
}

void RunLog::gradients(Window& window) {
  const int64_t every = options_.log_histograms;
  if (every == 0 || window.steps() % every != 0) return;
  EventFile::Tagged<Histogram> histograms;
  for (const auto& [name, gradient, scale] : window.last_gradients()) {
    const Tensor host = gradient.device() == Device::cpu ? gradient : gradient.to(Device::cpu);
    histograms.emplace_back("gradients/" + name, histogram_of(host.span<float>(), scale));
  }
  events_.add(window.steps(), {}, histograms);
}

void RunLog::finish(const Json& results, Device device) {
  Json summary{{"command", command_line()}, {"begun", begun_}, {"ended", now()}};
  summary["settings"] = options_.settings;
  summary["environment"] = environment(device);
  summary.update(results);
  write_text_atomically(directory_ / "summary.json", summary.dump(2) + "\n");
}

}  // namespace accrue::app
