#pragma once

#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/training.h"

namespace accrue::app {

// What a training run tells: a progress bar on a terminal, plain lines in a pipe, and a JSON line
// per optimizer step in the file of --json.
class TrainLog {
 public:
  // Prints the run's settings. Throws Error if the JSON file cannot be opened.
  TrainLog(const TrainOptions& options, const Datasets& data, Training& training,
           int64_t total_steps);

  void step(int64_t epoch, const StepReport& report);
  // The last line. Throws Error if the JSON file could not be written completely.
  void finish(bool interrupted, double waited_seconds);

 private:
  void draw_bar(int64_t epoch, const StepReport& report, double samples_per_s);
  void print_line(int64_t epoch, const StepReport& report);
  void write_json(int64_t epoch, const StepReport& report, double samples_per_s);

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
  bool terminal_;
  Clock::time_point start_ = Clock::now(), last_step_ = start_, last_bar_{};
  std::unique_ptr<std::FILE, CloseFile> json_;
};

}  // namespace accrue::app
