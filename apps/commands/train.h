#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/commands/memory_table.h"
#include "job/request.h"
#include "train/trainer.h"

namespace accrue {
class RunLog;
}

namespace accrue::app {

class Progress;

// What follows a run that was asked to stop, once its weights are saved: they are scored on the
// test data, or nothing is. A scoring under way then stops, too.
enum class WhenStopped { score, end };

// A run of `accrue train` with all that its options keep of it. It tells people how it goes.
class TrainingRun {
 public:
  // Loads the data, makes the networks, takes weights or a checkpoint, and opens the logs.
  // `held_before` is the memory on the cpu that others in this process hold. Throws Error.
  explicit TrainingRun(const Request& options, const Usage& held_before = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun();

  // Trains to the end or until it is asked to stop, then saves and scores. `beside` is told of it,
  // too. Throws as Trainer::run() does.
  void run(const StopRequest& stop, Observer* beside = nullptr,
           WhenStopped then = WhenStopped::score);

  Trainer& trainer() { return *trainer_; }
  const Request& options() const { return options_; }
  const Datasets& data() const { return data_; }
  Device device() const { return device_; }
  // That of the test data, after run(); none if that was stopped before.
  const std::optional<Score>& score_on_test() const { return score_; }
  // The peaks of the memory, after a run() with a step.
  const std::vector<PeakOfRun>& peaks() const { return peaks_; }

 private:
  class Recording;
  void score(const StopRequest& stop);

  const Request given_;
  const Device device_;
  const std::unique_ptr<Recording> recording_;
  const size_t resident_before_;
  Usage own_;  // of the memory on the cpu
  Datasets data_;
  Request options_;  // with the micro-batch that was chosen
  TrainingOptions asked_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<Observer> watcher_;
  std::optional<Score> score_;
  std::vector<PeakOfRun> peaks_;
};

// `accrue train`: trains, reports, evaluates, saves. Throws Error.
void train(const Request& given);

}  // namespace accrue::app
