#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "job/request.h"
#include "train/trainer.h"

namespace accrue::detail {

// The results of a run so far, since it began or was resumed.
struct RunResults {
  int64_t steps_before = 0;  // steps taken before it was resumed
  int64_t samples = 0;
  int64_t windows = 0;            // of the player that is counted
  int64_t skipped = 0, lost = 0;  // windows without a step: all; those not due to the loss scale
  std::optional<int64_t> last_step{};
  std::string pieces = "samples";  // the unit of throughput, and how many of it a sample has
  double pieces_of_sample = 1;
  Objective::Terms terms{};  // of the loss, the unit of the noise scale
  double noise_scale = 0;
  double effective_terms = 0;  // of a window, on average
  double seconds_before = 0;   // of training before this run, as the trainer counts them
  // Set at its end.
  bool is_interrupted = false;
  double seconds = 0, training_seconds = 0;
  std::string scored = "test";  // the part of the data that was scored
  std::optional<Score> score{}, score_of_average{};
};

// Collects the results of a run.
class RunRecorder : public Observer {
 public:
  // `resident_before` is the process's resident memory before the data was loaded. The other
  // arguments must outlive this.
  RunRecorder(const Request& request, Trainer& trainer, const Datasets& data,
              size_t resident_before);

  // To be called when the run begins and when it has ended.
  void begin();
  void end();
  void score(const Score& test, const std::optional<Score>& of_average);
  void on_step(const WindowReport& report) override;

  const RunResults& results() const { return results_; }
  double seconds_since_begin() const;
  // Returns false for the windows of all players but one: all players get the same samples in a
  // window, so only one player is counted, the last that goes through each window once.
  bool is_counted(const WindowReport& report) const;
  // The results as a JSON object, for the summary of a log.
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
  std::string batches_;  // when the run began
  Usage peak_;
  size_t resident_growth_ = 0;
  RunResults results_;
};

}  // namespace accrue::detail
