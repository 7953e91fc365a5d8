#include "apps/train_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace accrue::app {

TrainLog::TrainLog(const TrainOptions& options, const Datasets& data, Training& training,
                   int64_t total_steps)
    : options_(options),
      batches_(training.batches()),
      device_(training.parameters().values().device()),
      total_steps_(total_steps),
      terminal_(isatty(STDOUT_FILENO) != 0) {
  if (!options.json.empty()) {
    json_.reset(std::fopen(options.json.c_str(), "w"));
    check(json_ != nullptr, "--json {}: {}", options.json, std::strerror(errno));
  }
  fmt::print("{}: {} parameters | {}: {} training and {} test samples\n", name(options.model.kind),
             training.parameters().count(), data.train.name, data.train.size(), data.test.size());
  fmt::print("effective batch {} | {} | {} optimizer steps\n", batches_.describe(),
             training.window().schedule().describe(), total_steps);
  std::fflush(stdout);
}

void TrainLog::step(int64_t epoch, const StepReport& report) {
  ++steps_;
  samples_ += report.samples;
  const double step_seconds = seconds_since(last_step_);
  last_step_ = Clock::now();
  if (json_) write_json(epoch, report, double(report.samples) / step_seconds);
  if (report.skipped)
    fmt::print("{}[Epoch {}][Step {}] loss {} or its gradient is not finite: window skipped\n",
               terminal_ ? "\r\033[K" : "", epoch + 1, report.step, report.loss);
  else if (terminal_) draw_bar(epoch, report, double(samples_) / seconds_since(start_));
  else if (report.step % options_.log_every == 0 || report.step == total_steps_)
    print_line(epoch, report);
}

void TrainLog::draw_bar(int64_t epoch, const StepReport& report, double samples_per_s) {
  const bool last = report.step == total_steps_;
  if (!last && seconds_since(last_bar_) < 0.1) return;
  last_bar_ = Clock::now();
  constexpr int64_t width = 24;
  const int64_t filled = width * report.step / std::max<int64_t>(1, total_steps_);
  const double left =
      seconds_since(start_) / double(report.step) * double(total_steps_ - report.step);
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

void TrainLog::write_json(int64_t epoch, const StepReport& report, double samples_per_s) {
  nlohmann::ordered_json line{{"epoch", epoch + 1},
                              {"step", report.step},
                              {"micro_batches", report.micro_batches},
                              {"samples", report.samples},
                              {"loss", report.loss},
                              {"lr", report.lr},
                              {"grad_norm", report.grad_norm},
                              {"samples_per_s", samples_per_s},
                              {"skipped", report.skipped}};
  const Usage peak = ledger(device_).peak();
  for (Category c : all_categories) line["peak_bytes"][std::string(name(c))] = peak[c];
  line["peak_bytes"]["total"] = peak.total();
  fmt::print(json_.get(), "{}\n", line.dump());
}

void TrainLog::finish(bool interrupted, double waited_seconds) {
  const double seconds = seconds_since(start_);
  if (terminal_) fmt::print("\n");
  if (interrupted)
    fmt::print("interrupted: stopped after a whole window, {} optimizer steps\n", steps_);
  fmt::print("{} samples in {:.1f} s: {:.0f} samples/s, {:.1f} % of the time waiting for data\n",
             samples_, seconds, double(samples_) / seconds, 100 * waited_seconds / seconds);
  std::fflush(stdout);
  if (!json_) return;
  const bool written = std::fflush(json_.get()) == 0 && std::ferror(json_.get()) == 0;
  check(written, "--json {}: not completely written: {}", options_.json, std::strerror(errno));
}

}  // namespace accrue::app
