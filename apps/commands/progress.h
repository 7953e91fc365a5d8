#pragma once

#include <chrono>

#include "core/inside.h"
#include "job/training_run.h"

namespace accrue::app {

// Shows the progress of a training run: a bar on a terminal, plain lines in a pipe.
class Progress : public RunObserver {
 public:
  explicit Progress(TrainingRun& run);

  void on_begin() override;  // prints the run's settings
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;
  void on_halving(const Halving& halving) override;
  void on_refused_graph(const std::string& line) override;
  void on_end() override;  // prints how long the steps took
  void on_test_score(const Score& test, const std::optional<Score>& of_average) override;
  void on_peaks(const std::vector<PeakOfRun>& peaks, const ResidentBytes& process) override;
  void on_profile(const Profile& profile, const MachineRates& rates) override;

 private:
  void print_epoch();
  void print_overflow(const WindowReport& report);
  std::vector<std::string> facts_of(const WindowReport& report) const;
  void draw_bar(const WindowReport& report);
  void print_line(const WindowReport& report);
  // "4096 tokens/s"
  std::string rate(double samples_per_s) const;

  using Clock = std::chrono::steady_clock;

  const TrainingRun& run_;
  Trainer& trainer_;
  const Request& request_;
  const RunRecorder& recorder_;
  const RunResults& results_;
  const int64_t total_steps_;
  struct Epoch {
    int64_t number = 0;
    double weight = 0, loss_sum = 0;
  } epoch_;
  std::string other_losses_;  // of the players that are not counted, for the bar
  const bool terminal_;
  Clock::time_point last_bar_{};
};

// One line of at most columns - 1 characters. It holds as many of the first parts as fit, then a
// bar in the remaining room, of which the share `done` is filled.
std::string progress_line(const std::vector<std::string>& parts, double done, size_t columns);

}  // namespace accrue::app
