#pragma once

#include <chrono>
#include <nlohmann/json.hpp>

#include "job/request.h"
#include "train/trainer.h"

namespace accrue::app {

// Tells people how a training run goes: a progress bar on a terminal, plain lines in a pipe.
class Progress : public Observer {
 public:
  // `resident_before` is what of the process was in memory before the data was loaded.
  Progress(const Request& options, Trainer& trainer, size_t resident_before);

  // Prints the run's settings.
  void start(const Datasets& data);
  void on_damaged_checkpoint(const std::string& reason) override;
  void on_resume(const std::filesystem::path& checkpoint, const std::string& differences) override;
  void on_no_checkpoint(const std::filesystem::path& directory) override;
  void on_step(const WindowReport& report) override;
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override;
  void on_halving(const Halving& halving) override;
  void on_refused_graph(const std::string& line) override;
  // Prints how long the steps took.
  void finish(bool interrupted, double waited_seconds);
  // The score on the test data, and that of the weights' average, after finish().
  void score(const Score& test, const std::optional<Score>& of_average);
  // All of that, for the summary of --log-dir.
  const nlohmann::ordered_json& results() const { return results_; }

 private:
  void print_epoch();
  void print_overflow(const WindowReport& report);
  std::vector<std::string> facts_of(const WindowReport& report) const;
  void draw_bar(const WindowReport& report);
  void print_line(const WindowReport& report);
  bool is_counted(const WindowReport& report) const;
  void count_skipped(const WindowReport& report);
  double effective_terms() const;
  // "4096 tokens/s"
  std::string rate(double samples_per_s) const;

  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const Request& options_;
  Trainer& trainer_;
  int64_t total_steps_, samples_ = 0, steps_ = 0, steps_before_ = 0;
  // Windows without a step, and those of them that nothing makes good.
  int64_t skipped_ = 0, lost_ = 0;
  std::string scored_ = "test";
  struct Epoch {
    int64_t number = 0;
    double weight = 0, loss_sum = 0;
  } epoch_;
  double noise_scale_ = 0;
  Objective::Terms terms_;  // of the loss, in which that is
  struct {
    double seen = 0;
    int64_t windows = 0;
  } windows_weight_;
  std::string other_losses_;  // of players that are not counted, for the bar
  size_t resident_before_;
  bool terminal_;
  std::string pieces_ = "samples";  // that throughput counts, and how many a sample has
  double pieces_of_sample_ = 1;
  Clock::time_point start_ = Clock::now(), last_bar_{};
  double seconds_before_ = 0;  // of training, before it started
  nlohmann::ordered_json results_;
};

// One line of at most columns - 1 characters: as many of the parts as it has room for, the first
// ones first, and what remains as a bar of which the share `done` is filled.
std::string progress_line(const std::vector<std::string>& parts, double done, size_t columns);

// Warns that BatchNorm takes its statistics from a micro-batch, where that is less than the batch,
// unless all BatchNorms are frozen.
void warn_about_batch_norm(const Request& options, const Training& training, Batches batches);

}  // namespace accrue::app
