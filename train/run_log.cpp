#include "train/run_log.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include "data/append_file.h"
#include "data/atomic_file.h"
#include "data/strict_json.h"
#include "train/json.h"
#include "train/process.h"
#include "train/tensorboard/event_file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
  // Files with these names in a directory without a log belong to something else.
  if (!fs::exists(directory / "metrics.jsonl"))
    for (const char* name : {"summary.json", "config.toml"})
      check(!fs::exists(directory / name),
            "'{}' has a {}, which is of no log and would be replaced: expected a new or empty "
            "directory",
            options.directory, name);
  // A directory that cannot be written is an error now, not after the training.
  check_writable(directory / "summary.json");
  return directory;
}

// The numbers in a line, named like TensorBoard's tags: "peak_bytes/total".
EventFile::Tagged<double> scalars_of(const Json& line, const std::string& group) {
  EventFile::Tagged<double> scalars;
  for (const auto& [key, value] : line.items()) {
    if (value.is_object())
      for (auto& scalar : scalars_of(value, key == "terms" ? group : key))
        scalars.push_back(std::move(scalar));
    else if (value.is_number() && key != "step" && key != "window")
      if (const auto number = value.get<double>(); !std::isnan(number))
        scalars.emplace_back(group + "/" + key, number);
  }
  return scalars;
}

// The descriptions by key of a JSON line, for any group.
const Descriptions& descriptions() {
  static const Descriptions all{
      {"epoch", "Epoch, counted from 1."},
      {"micro_batches", "Micro-batches in the window."},
      {"samples", "Samples that the other numbers are of."},
      {"loss", "Mean loss over the samples."},
      {"lr", "Learning rate of the step."},
      {"grad_norm", "L2 norm of the window's mean gradient, before clipping."},
      {"samples_per_s",
       "Throughput in samples per second of training, from the step before to this one, without "
       "the "
       "time of scores and checkpoints."},
      {"loss_scale", "Factor on the loss that the window was computed with."},
      {"dropped_samples", "Samples that were left out because their gradient was not finite."},
      {"noise_scale",
       "Gradient noise scale, averaged over some 200 steps, in what the loss is a mean over: "
       "samples, judged pixels or tokens."},
      {"peak_rss_growth_bytes",
       "Bytes by which the resident memory of the process (RSS) has grown at most since before the "
       "data was loaded."},
      {"correct", "Samples whose class was predicted correctly."},
      {"accuracy", "Share of the samples whose class was predicted correctly, in percent."}};
  return all;
}

std::string description_of(const std::string& tag, const Descriptions& others) {
  const size_t slash = tag.find('/');
  const std::string group = tag.substr(0, slash), key = tag.substr(slash + 1);
  const std::string category = key == "total" ? "all categories" : key;
  if (group == "in_use_bytes")
    return fmt::format("Bytes of {} in use on the device between two windows.", category);
  if (group == "peak_bytes")
    return fmt::format(
        "Bytes of {} at the moment when all categories together took most of the device's memory, "
        "since the run began.",
        category);
  if (group == "gradients")
    return "The values of a parameter's gradient as the step used it: the mean over the window, "
           "unscaled and clipped.";
  for (const Descriptions* known : {&descriptions(), &others})
    if (const auto found = known->find(key); found != known->end()) return found->second;
  return "";
}

}  // namespace

struct RunLog::Files {
  // The file of JSON lines.
  class JsonFile {
   public:
    explicit JsonFile(std::string path)
        : path_(std::move(path)), file_(std::fopen(path_.c_str(), "a")) {
      check(file_ != nullptr, "'{}': {}", path_, std::strerror(errno));
      // The lock is held while the file is open.
      const bool ours = ::flock(::fileno(file_.get()), LOCK_EX | LOCK_NB) == 0;
      check(ours || errno != EWOULDBLOCK,
            "'{}' is being written by another run: expected a file of this run's own", path_);
    }
    void empty() {
      const bool is_empty = ::ftruncate(::fileno(file_.get()), 0) == 0;
      check(is_empty || errno == EINVAL, "'{}': {}", path_, std::strerror(errno));
    }
    void write(std::string_view line) {
      check_written(std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size());
    }
    void flush() { check_written(std::fflush(file_.get()) == 0); }

   private:
    void check_written(bool ok) const {
      check(ok, "cannot write '{}': {}; what it held before is intact", path_,
            std::strerror(errno));
    }
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
          events_(directory_, options.continued ? steps_before + 1 : 0,
                  [others = options.descriptions](const std::string& tag) {
                    return description_of(tag, others);
                  }),
          metrics_(directory_ / "metrics.jsonl", AppendFile::Existing::continued),
          last_step_(steps_before) {
      if (!options.hyperparameters.empty()) events_.add_hyperparameters(options.hyperparameters);
    }

    void step(const Json& line) {
      write(line);
      const bool alone = !line.contains("player");
      last_step_ = line.at(alone ? "step" : "window");
      events_.add(last_step_, scalars_of(line, alone ? "train" : line.at("player")));
    }
    void score(const Json& line) {
      write(line);
      events_.add(last_step_, scalars_of(line, "test"));
    }
    // Adds histograms of each parameter's gradient as the window's last step used it. Waits for the
    // device.
    void gradients(const Player& player) {
      EventFile::Tagged<Histogram> histograms;
      for (const auto& [name, gradient, scale] : player.window.last_gradients()) {
        const Tensor host = gradient.device() == Device::cpu ? gradient : gradient.to(Device::cpu);
        const std::vector<float> values = dispatch_floating(host.dtype(), [&]<class T>() {
          return std::vector<float>(host.span<T>().begin(), host.span<T>().end());
        });
        histograms.emplace_back("gradients/" + player.named(name), histogram_of(values, scale));
      }
      events_.add(player.window.steps(), {}, histograms);
    }
    void text(int64_t step, const std::string& tag, const Json& line) {
      write(line);
      events_.add_text(step, tag, line.at("sample"));
    }
    void picture(int64_t step, const std::string& tag, const GrayImage& drawn) {
      events_.add_picture(step, tag, drawn);
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

  Json line_of(const WindowReport& report);
  void write_json(const Json& line) {
    const std::string text = line.dump() + "\n";
    if (json) json->write(text);
    else if (options.json_lines) options.json_lines(text);
  }

  const RunLogOptions options;
  const Device device;
  const bool noise_scale;
  std::optional<JsonFile> json;
  std::optional<LogDirectory> directory;
  const std::string begun = now();
  std::map<std::string, double> last_step;  // WindowReport::seconds, by player
};

RunLog::RunLog(const RunLogOptions& options, const TrainingOptions& training_options,
               Training& training)
    : files_(new Files{.options = options,
                       .device = training.device(),
                       .noise_scale = training_options.noise_scale}) {
  if (!options.json.empty()) files_->json.emplace(options.json);
  if (!options.directory.empty())
    files_->directory.emplace(
        options, training_options.strategy,
        training.game().players().size() > 1 ? training.game().windows() : training.steps());
  // Erase an earlier run's lines last, when no further check can fail.
  if (files_->json && !options.continued) files_->json->empty();
}

RunLog::~RunLog() = default;

Json RunLog::Files::line_of(const WindowReport& report) {
  // Players report a window one after the other, so each player has its own time between windows.
  double& last = last_step[report.player];
  const double seconds = report.seconds - std::exchange(last, report.seconds);
  Json line;
  if (!report.player.empty()) line["player"] = report.player;
  line.update({{"epoch", report.epoch + 1},
               {"window", report.window + 1},
               {"step", report.step},
               {"micro_batches", report.micro_batches},
               {"samples", report.samples},
               {"loss", report.loss},
               {"lr", report.lr},
               {"grad_norm", report.grad_norm},
               {"samples_per_s", double(report.samples) / seconds},
               {"loss_scale", report.loss_scale},
               {"dropped_samples", report.dropped_samples},
               {"skipped", report.skipped}});
  for (size_t i = 0; i < report.terms.size(); ++i)
    line["terms"][report.term_names.at(i)] = report.terms[i];
  if (noise_scale) line["noise_scale"] = report.noise_scale;
  line["in_use_bytes"] = with_total(ledger(device).current());
  line["peak_bytes"] = with_total(ledger(device).peak());
  line["peak_rss_growth_bytes"] = peak_resident_bytes() - options.resident_before;
  return line;
}

void RunLog::on_window(const Player& player) {
  const int64_t every = files_->options.histograms_every;
  if (files_->directory && every != 0 && player.window.steps() % every == 0)
    files_->directory->gradients(player);
}

void RunLog::on_step(const WindowReport& report) {
  if (!files_->json && !files_->options.json_lines && !files_->directory) return;
  const Json line = files_->line_of(report);
  files_->write_json(line);
  if (files_->directory) files_->directory->step(line);
}

void RunLog::on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) {
  const Json line{
      {"epoch", epoch + 1}, {"window", windows}, {"test", to_json(score)}, {"is_best", is_best}};
  files_->write_json(line);
  if (files_->directory) files_->directory->score(line);
}

void RunLog::on_checkpoint() {
  if (files_->json) files_->json->flush();
}

void RunLog::picture(int64_t window, const std::string& tag, const GrayImage& drawn) {
  if (files_->directory) files_->directory->picture(window, tag, drawn);
}

void RunLog::sample(int64_t window, const std::string& tag, const std::string& text) {
  constexpr auto replace = Json::error_handler_t::replace;
  const Json line{{"window", window},
                  {"sample", Json::parse(Json(text).dump(-1, ' ', false, replace))}};
  files_->write_json(line);
  if (files_->directory) files_->directory->text(window, tag, line);
}

void RunLog::score(const Score& test, const std::optional<Score>& of_average) {
  Json line{{"test", to_json(test)}};
  if (of_average) line["test_ema"] = to_json(*of_average);
  if (files_->directory) files_->directory->score(line);
  files_->write_json(line);
  on_checkpoint();
}

void RunLog::finish(const std::string& summary) {
  if (!files_->directory) return;
  Json all{{"begun", files_->begun}, {"ended", now()}};
  all.update(Json::parse(summary));
  files_->directory->finish(all);
}

int64_t detail::keep_logged_windows(const std::string& path, int64_t windows) {
  std::ifstream before(path);
  if (!before) return 0;
  AtomicFile after(path);
  int64_t last = 0;
  for (std::string line; std::getline(before, line);) {
    const Json json = parse_own_json(line);
    if (!json.is_object()) break;
    if (!json.contains("window") || json["window"] > windows) continue;
    last = std::max(last, json["window"].get<int64_t>());
    line += '\n';
    after.write(std::as_bytes(std::span(line)));
  }
  after.commit();
  return last;
}

}  // namespace accrue
