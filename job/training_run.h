#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "job/notices.h"
#include "job/run_memory.h"
#include "job/run_results.h"
#include "job/services.h"

namespace accrue {

namespace detail {

// What follows a run that was asked to stop, once its weights are saved: they are scored on the
// test data, or nothing is. A scoring under way then stops, too.
enum class WhenStopped { score, end };

// Is told of a whole run, in this order, beside what happens while it trains.
class RunObserver : public Observer {
 public:
  virtual void on_begin() {}
  // The run has trained to its end, or was asked to stop. Next it saves the weights.
  virtual void on_end() {}
  // The score on the test data, and that of the weights' average.
  virtual void on_test_score(const Score&, const std::optional<Score>& /*of_average*/) {}
  // The peaks of the memory, if there was a step.
  virtual void on_peaks(const std::vector<PeakOfRun>&, const ResidentBytes&) {}
  virtual void on_profile(const Profile&, const MachineRates&) {}
};

}  // namespace detail

// A training with all that its request keeps of it: weights, checkpoints, logs, scores, recordings.
class TrainingRun {
 public:
  // Loads the data, makes the networks, takes weights or a checkpoint, and opens the logs. Takes a
  // request with what weights say (job/job.h), which must outlive this, as must `services`.
  // `held_before` is the memory on the cpu that others in this process hold. Throws Error.
  TrainingRun(const Request& request, const Notices& notices, const detail::JobServices& services,
              const Usage& held_before = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun();

  // Trains to the end or until it is asked to stop, then saves and scores. Throws as Trainer::run()
  // does.
  void run(const std::vector<detail::RunObserver*>& observers = {},
           const StopRequest& stop = detail::never_stop,
           detail::WhenStopped then = detail::WhenStopped::score);

  Trainer& trainer() { return *trainer_; }
  // With the micro-batch that was chosen.
  const Request& request() const { return request_; }
  const Datasets& data() const { return data_; }
  Device device() const { return device_; }
  const detail::RunRecorder& recorder() const { return *recorder_; }
  // That of the test data, after run(); none if that was stopped before.
  const std::optional<Score>& score_on_test() const { return recorder_->results().score; }
  // The peaks of the memory, after a run() with a step.
  const std::vector<detail::PeakOfRun>& peaks() const { return peaks_; }

 private:
  class Recording;
  void score(const std::vector<detail::RunObserver*>& observers, const StopRequest& stop);
  void save();
  void measure(const std::vector<detail::RunObserver*>& observers, const detail::WindowRange& part,
               const Usage& peak);
  void write_profile(const detail::Profile& profile,
                     const std::vector<detail::RunObserver*>& observers);

  const Request& given_;
  const Notices& notices_;
  const detail::JobServices& services_;
  const Device device_;
  const std::unique_ptr<Recording> recording_;
  const size_t resident_before_;
  Usage own_;  // of the memory on the cpu
  Datasets data_;
  Request request_;
  TrainingOptions asked_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<detail::RunRecorder> recorder_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<Observer> watcher_;
  std::vector<detail::PeakOfRun> peaks_;
};

namespace detail {

// What to say of BatchNorm that takes its statistics from a micro-batch where that is less than the
// batch, unless all BatchNorms are frozen; empty if there is nothing to say.
std::string about_batch_norm(const Request& request, const Training& training, Batches batches);

}  // namespace detail

}  // namespace accrue
