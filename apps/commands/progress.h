#pragma once

#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cli/options.h"
#include "train/trainer.h"

namespace accrue::app {

// What a training run tells people: a progress bar on a terminal, plain lines in a pipe.
class Progress : public Observer {
 public:
  // `resident_before` is what of the process was in memory before the data was loaded.
  Progress(const Options& options, Trainer& trainer, size_t resident_before);

  // Prints the run's settings.
  void start(const Datasets& data);
  void on_damaged_checkpoint(const std::string& reason) override;
  void on_resume(const std::filesystem::path& checkpoint, const std::string& differences) override;
  void on_no_checkpoint(const std::filesystem::path& directory) override;
  void on_step(int64_t epoch, const StepReport& report) override;
  void on_halving(const Halving& halving) override;
  // What the steps took.
  void finish(bool interrupted, double waited_seconds);
  // The score on the test data, and that of the weights' average, after finish().
  void score(const Score& test, const std::optional<Score>& of_average);
  // All of that, for the summary of --log-dir.
  const nlohmann::ordered_json& results() const { return results_; }

 private:
  void print_overflow(int64_t epoch, const StepReport& report);
  void draw_bar(int64_t epoch, const StepReport& report, double samples_per_s);
  void print_line(int64_t epoch, const StepReport& report);

  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const Options& options_;
  Trainer& trainer_;
  int64_t total_steps_, samples_ = 0, steps_ = 0;
  double noise_scale_ = 0;
  size_t resident_before_;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), last_bar_{};
  nlohmann::ordered_json results_;
};

// Warns that BatchNorm takes its statistics from a micro-batch, where that is less than the batch.
void warn_about_batch_norm(const Options& options, Batches batches);

}  // namespace accrue::app
