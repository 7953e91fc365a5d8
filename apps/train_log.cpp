#include "apps/train_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/averages.h"
#include "apps/resident.h"
#include "apps/score_json.h"
#include "apps/usage_json.h"

namespace accrue::app {

TrainLog::TrainLog(const TrainOptions& options, const Datasets& data, Training& training,
                   int64_t total_steps, size_t resident_before)
    : options_(options),
      batches_(training.batches()),
      device_(training.parameters().values().device()),
      total_steps_(total_steps),
      resident_before_(resident_before),
      terminal_(isatty(STDOUT_FILENO) != 0) {
  if (!options.json.empty()) {
    json_.reset(std::fopen(options.json.c_str(), options.resume ? "a" : "w"));
    check(json_ != nullptr, "--json {}: {}", options.json, std::strerror(errno));
  }
  // The log of a run that goes on continues after its last step.
  if (!options.log_dir.empty())
    run_log_ = std::make_unique<RunLog>(options, training.window().steps());
  results_ = {{"model", name(options.model.kind)}, {"parameters", training.parameters().count()},
              {"data", data.train.name},           {"training_samples", data.train.size()},
              {"test_samples", data.test.size()},  {"batches", batches_.describe()}};
  fmt::print("{}: {} parameters | {}: {} training and {} test samples\n", name(options.model.kind),
             training.parameters().count(), data.train.name, data.train.size(), data.test.size());
  fmt::print("effective batch {} | {} | {} optimizer steps\n", batches_.describe(),
             training.window().schedule().describe(), total_steps);
  for (const std::string& line : describe_averages(options, batches_.effective))
    fmt::print("{}\n", line);
  std::fflush(stdout);
}

void TrainLog::step(int64_t epoch, const StepReport& report) {
  ++steps_;
  results_["steps"] = report.step;
  samples_ += report.samples;
  noise_scale_ = report.noise_scale;
  const double step_seconds = seconds_since(last_step_);
  last_step_ = Clock::now();
  if (json_ || run_log_) {
    const auto line = line_of(epoch, report, double(report.samples) / step_seconds);
    if (json_) fmt::print(json_.get(), "{}\n", line.dump());
    if (run_log_) run_log_->step(line);
  }
  if (report.overflow || report.skipped) print_overflow(epoch, report);
  if (report.skipped) return;
  if (terminal_) draw_bar(epoch, report, double(samples_) / seconds_since(start_));
  else if (report.step % options_.log_every == 0 || report.step == total_steps_)
    print_line(epoch, report);
}

void TrainLog::halved(const Halving& halving) {
  batches_ = halving.after;
  fmt::print("{}[Epoch {}][Window {}] out of memory: {} becomes {}, and the window starts again\n",
             terminal_ ? "\r\033[K" : "", halving.epoch + 1, halving.window + 1,
             halving.before.describe(), halving.after.describe());
  std::fflush(stdout);
}

void TrainLog::print_overflow(int64_t epoch, const StepReport& report) {
  const std::string what = !report.skipped
                               ? fmt::format("{} samples dropped", report.dropped_samples)
                               : "window skipped";
  fmt::print("{}[Epoch {}][Step {}] loss {} or its gradient is not finite (loss scale {:g}): {}\n",
             terminal_ ? "\r\033[K" : "", epoch + 1, report.step, report.loss, report.loss_scale,
             what);
  std::fflush(stdout);
}

void TrainLog::draw_bar(int64_t epoch, const StepReport& report, double samples_per_s) {
  const bool last = report.step == total_steps_;
  if (!last && seconds_since(last_bar_) < 0.1) return;
  last_bar_ = Clock::now();
  constexpr int64_t width = 24;
  const int64_t filled = width * report.step / std::max<int64_t>(1, total_steps_);
  const double left = seconds_since(start_) / double(steps_) * double(total_steps_ - report.step);
  fmt::print(
      "\r\033[K[{:#<{}}{:.<{}}] epoch {} step {}/{} loss {:.3f} lr {:.2g} {:.0f} samples/s ETA "
      "{:.0f} s",
      "", filled, "", width - filled, epoch + 1, report.step, total_steps_, report.loss, report.lr,
      samples_per_s, left);
  std::fflush(stdout);
}

void TrainLog::print_line(int64_t epoch, const StepReport& report) {
  const Usage peak = ledger(device_).peak();
  fmt::print("[Epoch {}][Step {}] loss {:.4f} | lr {:.3g} | eff. batch {} | peak {}\n", epoch + 1,
             report.step, report.loss, report.lr, batches_.describe(),
             format_bytes(peak.total() - peak[Category::data]));
  std::fflush(stdout);
}

nlohmann::ordered_json TrainLog::line_of(int64_t epoch, const StepReport& report,
                                         double samples_per_s) const {
  nlohmann::ordered_json line{{"epoch", epoch + 1},
                              {"step", report.step},
                              {"micro_batches", report.micro_batches},
                              {"samples", report.samples},
                              {"loss", report.loss},
                              {"lr", report.lr},
                              {"grad_norm", report.grad_norm},
                              {"samples_per_s", samples_per_s},
                              {"loss_scale", report.loss_scale},
                              {"dropped_samples", report.dropped_samples},
                              {"skipped", report.skipped}};
  if (options_.noise_scale) line["noise_scale"] = report.noise_scale;
  line["peak_bytes"] = with_total(ledger(device_).peak());
  line["peak_rss_growth_bytes"] = peak_resident_bytes() - resident_before_;
  return line;
}

void TrainLog::gradients(Window& window) {
  if (run_log_) run_log_->gradients(window);
}

void TrainLog::finish(bool interrupted, double waited_seconds) {
  const double seconds = seconds_since(start_);
  if (terminal_) fmt::print("\n");
  if (interrupted)
    fmt::print("interrupted: stopped after a whole window, {} optimizer steps\n", steps_);
  fmt::print("{} samples in {:.1f} s: {:.0f} samples/s, {:.1f} % of the time waiting for data\n",
             samples_, seconds, double(samples_) / seconds, 100 * waited_seconds / seconds);
  if (options_.noise_scale)
    fmt::print("{}\n", describe_noise_scale(noise_scale_, batches_.effective));
  std::fflush(stdout);
  flush();
  results_["status"] = interrupted ? "interrupted" : "finished";
  results_["samples"] = samples_;
  results_["seconds"] = seconds;
  results_["samples_per_s"] = double(samples_) / seconds;
  results_["peak_bytes"] = with_total(ledger(device_).peak());
  results_["peak_rss_growth_bytes"] = peak_resident_bytes() - resident_before_;
  if (options_.noise_scale) results_["noise_scale"] = noise_scale_;
}

void TrainLog::summarize() {
  if (run_log_) run_log_->finish(results_, device_);
}

void TrainLog::score(const Score& test, const std::optional<Score>& of_average) {
  fmt::print("test {}\n", test.describe());
  if (of_average) fmt::print("test {} (average of the weights)\n", of_average->describe());
  nlohmann::ordered_json line{{"test", to_json(test)}};
  if (of_average) line["test_ema"] = to_json(*of_average);
  results_.update(line);
  if (run_log_) run_log_->score(line);
  if (!json_) return;
  fmt::print(json_.get(), "{}\n", line.dump());
  flush();
}

void TrainLog::flush() {
  if (!json_) return;
  const bool written = std::fflush(json_.get()) == 0 && std::ferror(json_.get()) == 0;
  check(written, "--json {}: not completely written: {}", options_.json, std::strerror(errno));
}

}  // namespace accrue::app
