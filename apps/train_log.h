#pragma once

#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/run_log.h"
#include "apps/training.h"
#include "apps/window_runner.h"
#include "train/score.h"

namespace accrue::app {

// What a training run tells: a progress bar on a terminal, plain lines in a pipe. The file of
// --json gets a line per optimizer step, with {"test": score} as the last.
class TrainLog {
 public:
  // Prints the run's settings. `resident_before` is what of the process was in memory before the
  // data was loaded. With --resume the JSON file is continued. Throws Error if the JSON file cannot
  // be opened.
  TrainLog(const TrainOptions& options, const Datasets& data, Training& training,
           int64_t total_steps, size_t resident_before);

  void step(int64_t epoch, const StepReport& report);
  // One line: the window at which --on-oom split halved the micro-batch, before and after.
  void halved(const Halving& halving);
  // Logs the window's gradients, if that is asked for (RunLog::gradients()).
  void gradients(Window& window);
  // Throws Error if the JSON file could not be written completely.
  void flush();
  // What the steps took. Throws Error if the JSON file could not be written completely.
  void finish(bool interrupted, double waited_seconds);
  // The score on the test data, and that of the weights' average, after finish(). Throws Error
  // likewise.
  void score(const Score& test, const std::optional<Score>& of_average);
  // The summary of --log-dir, if there is one, with what finish() and score() were told.
  void summarize();

 private:
  void print_overflow(int64_t epoch, const StepReport& report);
  void draw_bar(int64_t epoch, const StepReport& report, double samples_per_s);
  void print_line(int64_t epoch, const StepReport& report);
  nlohmann::ordered_json line_of(int64_t epoch, const StepReport& report,
                                 double samples_per_s) const;

  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const TrainOptions& options_;
  Batches batches_;
  Device device_;
  int64_t total_steps_, samples_ = 0, steps_ = 0;
  double noise_scale_ = 0;
  size_t resident_before_;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), last_step_ = start_, last_bar_{};
  std::unique_ptr<std::FILE, CloseFile> json_;
  std::unique_ptr<RunLog> run_log_;
  nlohmann::ordered_json results_;
};

}  // namespace accrue::app
