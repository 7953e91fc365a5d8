#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "job/request.h"
#include "train/trainer.h"

namespace accrue::detail {

// What a run has come to so far, since it began or was resumed.
struct RunResults {
  int64_t steps_before = 0;  // that were taken when it was resumed
  int64_t samples = 0;
  int64_t windows = 0;            // of the player that counts
  int64_t skipped = 0, lost = 0;  // windows without a step; those of them that nothing makes good
  std::optional<int64_t> last_step{};
  std::string pieces = "samples";  // that throughput counts, and how many a sample has
  double pieces_of_sample = 1;
  Objective::Terms terms{};  // of the loss, in which the noise scale is
  double noise_scale = 0;
  double effective_terms = 0;  // of a window, on average
  double seconds_before = 0;   // of training, as the trainer counts them
  // At its end.
  bool is_interrupted = false;
  double seconds = 0, training_seconds = 0;
  std::string scored = "test";  // the samples of the scores
  std::optional<Score> score{}, score_of_average{};
};

// Collects them.
class RunRecorder : public Observer {
 public:
  // `resident_before` is what of the process was in memory before the data was loaded. All else
  // must outlive this.
  RunRecorder(const Request& request, Trainer& trainer, const Datasets& data,
              size_t resident_before);

  // The run begins, and has ended.
  void begin();
  void end();
  void score(const Score& test, const std::optional<Score>& of_average);
  void on_step(const WindowReport& report) override;

  const RunResults& results() const { return results_; }
  double seconds_since_begin() const;
  // False for a window of a player that others count for: each has as many samples for every
  // player, so they are counted by the last one that goes through each window once.
  bool is_counted(const WindowReport& report) const;
  // A JSON object, for the summary of a log.
  std::string to_json() const;

 private:
  using Clock = std::chrono::steady_clock;
  void count_skipped(const WindowReport& report);

  const Request& request_;
  Trainer& trainer_;
  const Datasets& data_;
  const size_t resident_before_;
  Clock::time_point start_ = Clock::now();
  double weight_seen_ = 0;  // in windows with a step
  int64_t weighed_windows_ = 0;
  std::string batches_;  // as it began
  Usage peak_;
  size_t resident_growth_ = 0;
  RunResults results_;
};

}  // namespace accrue::detail
