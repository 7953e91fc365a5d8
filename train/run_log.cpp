#include "train/run_log.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "data/append_file.h"
#include "data/atomic_file.h"
#include "train/json.h"
#include "train/process.h"
#include "train/tensorboard/event_file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

fs::path prepared(const RunLogOptions& options, Strategy strategy) {
  require_event_files();
  check(options.histograms_every == 0 || !drops_gradients(strategy),
        "histograms show gradients, which strategy {} does not keep: expected fused or separate",
        name_in(strategy_names(), strategy));
  const fs::path directory(options.directory);
  std::error_code error;
  fs::create_directories(directory, error);
  check(!error && fs::is_directory(directory), "'{}': {}, expected a directory to write a log to",
        options.directory, error ? error.message() : "not a directory");
  check(options.continued || !fs::exists(directory / "metrics.jsonl"),
        "'{}' holds the log of another run: expected a new or empty directory", options.directory);
  // A place that cannot be written to is an error now, not after the training.
  check_writable(directory / "summary.json");
  return directory;
}

// The numbers in a line, by the names of TensorBoard's tags: "peak_bytes/total".
EventFile::Tagged<double> scalars_of(const Json& line, const std::string& group) {
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

struct RunLog::Files {
  // The file of JSON lines.
  class JsonFile {
   public:
    JsonFile(std::string path, bool continued)
        : path_(std::move(path)), file_(std::fopen(path_.c_str(), continued ? "a" : "w")) {
      check(file_ != nullptr, "'{}': {}", path_, std::strerror(errno));
    }
    void write(const Json& line) { fmt::print(file_.get(), "{}\n", line.dump()); }
    void flush() {
      const bool written = std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0;
      check(written, "'{}': not completely written: {}", path_, std::strerror(errno));
    }

   private:
    struct Close {
      void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::string path_;
    std::unique_ptr<std::FILE, Close> file_;
  };

  // The directory for TensorBoard and `accrue report`.
  class LogDirectory {
   public:
    LogDirectory(const RunLogOptions& options, Strategy strategy, int64_t steps_before)
        : directory_(prepared(options, strategy)),
          events_(directory_, options.continued ? steps_before + 1 : 0),
          metrics_(directory_ / "metrics.jsonl", AppendFile::Existing::continued),
          last_step_(steps_before) {}

    void step(const Json& line) {
      write(line);
      last_step_ = line.at("step");
      events_.add(last_step_, scalars_of(line, "train"));
    }
    void score(const Json& line) {
      write(line);
      events_.add(last_step_, scalars_of(line, "test"));
    }
    // The histograms of each parameter's gradient as the window's last step used it. Waits for the
    // device.
    void gradients(Window& window) {
      EventFile::Tagged<Histogram> histograms;
      for (const auto& [name, gradient, scale] : window.last_gradients()) {
        const Tensor host = gradient.device() == Device::cpu ? gradient : gradient.to(Device::cpu);
        histograms.emplace_back("gradients/" + name, histogram_of(host.span<float>(), scale));
      }
      events_.add(window.steps(), {}, histograms);
    }
    void finish(const Json& summary) {
      write_text_atomically(directory_ / "summary.json", summary.dump(2) + "\n");
    }

   private:
    void write(const Json& line) {
      const std::string text = line.dump() + "\n";
      metrics_.append(std::as_bytes(std::span(text)));
    }

    fs::path directory_;
    EventFile events_;
    AppendFile metrics_;
    int64_t last_step_;
  };

  Json line_of(int64_t epoch, const StepReport& report);

  const RunLogOptions options;
  const Device device;
  const bool noise_scale;
  std::optional<JsonFile> json;
  std::optional<LogDirectory> directory;
  const std::string begun = now();
  Clock::time_point last_step = Clock::now();
};

RunLog::RunLog(const RunLogOptions& options, const TrainingOptions& training_options,
               Training& training)
    : files_(new Files{.options = options,
                       .device = training.device(),
                       .noise_scale = training_options.noise_scale}) {
  if (!options.json.empty()) files_->json.emplace(options.json, options.continued);
  if (!options.directory.empty())
    files_->directory.emplace(options, training_options.strategy, training.window().steps());
}

RunLog::~RunLog() = default;

Json RunLog::Files::line_of(int64_t epoch, const StepReport& report) {
  const Clock::time_point before = std::exchange(last_step, Clock::now());
  const double seconds = std::chrono::duration<double>(last_step - before).count();
  Json line{{"epoch", epoch + 1},
            {"step", report.step},
            {"micro_batches", report.micro_batches},
            {"samples", report.samples},
            {"loss", report.loss},
            {"lr", report.lr},
            {"grad_norm", report.grad_norm},
            {"samples_per_s", double(report.samples) / seconds},
            {"loss_scale", report.loss_scale},
            {"dropped_samples", report.dropped_samples},
            {"skipped", report.skipped}};
  if (noise_scale) line["noise_scale"] = report.noise_scale;
  line["peak_bytes"] = with_total(ledger(device).peak());
  line["peak_rss_growth_bytes"] = peak_resident_bytes() - options.resident_before;
  return line;
}

void RunLog::on_window(Window& window) {
  const int64_t every = files_->options.histograms_every;
  if (files_->directory && every != 0 && window.steps() % every == 0)
    files_->directory->gradients(window);
}

void RunLog::on_step(int64_t epoch, const StepReport& report) {
  if (!files_->json && !files_->directory) return;
  const Json line = files_->line_of(epoch, report);
  if (files_->json) files_->json->write(line);
  if (files_->directory) files_->directory->step(line);
}

void RunLog::on_checkpoint() {
  if (files_->json) files_->json->flush();
}

void RunLog::score(const Score& test, const std::optional<Score>& of_average) {
  Json line{{"test", to_json(test)}};
  if (of_average) line["test_ema"] = to_json(*of_average);
  if (files_->directory) files_->directory->score(line);
  if (files_->json) files_->json->write(line);
  on_checkpoint();
}

void RunLog::finish(const std::string& summary) {
  if (!files_->directory) return;
  Json all{{"begun", files_->begun}, {"ended", now()}};
  all.update(Json::parse(summary));
  files_->directory->finish(all);
}

int64_t keep_logged_windows(const std::string& path, int64_t windows) {
  std::ifstream before(path);
  if (!before) return 0;
  AtomicFile after(path);
  int64_t kept = 0;
  for (std::string line; kept < windows && std::getline(before, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) break;
    if (json.contains("test")) continue;
    if (json.contains("step")) ++kept;
    line += '\n';
    after.write(std::as_bytes(std::span(line)));
  }
  after.commit();
  return kept;
}

}  // namespace accrue
