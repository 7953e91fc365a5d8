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

// What to do after a run that was asked to stop has saved its weights: score them on the test data,
// or end. With `end`, a scoring that is already running stops, too.
enum class WhenStopped { score, end };

// Observes a whole run: these calls come in this order, in addition to the calls during training.
class RunObserver : public Observer {
 public:
  virtual void on_begin() {}
  // The run has trained to its end, or was asked to stop. It saves the weights next.
  virtual void on_end() {}
  // The score on the test data, of the weights and of their average.
  virtual void on_test_score(const Score&, const std::optional<Score>& /*of_average*/) {}
  // The peaks of memory, if the run took at least one step.
  virtual void on_peaks(const std::vector<PeakOfRun>&, const ResidentBytes&) {}
  virtual void on_profile(const Profile&, const MachineRates&) {}
};

}  // namespace detail

// A training and everything that its request asks to keep: weights, checkpoints, logs, scores and
// recordings.
class TrainingRun {
 public:
  // Loads the data, makes the networks, reads weights or a checkpoint, and opens the logs. The
  // request must have been completed from its weights (job/job.h). It must outlive this, and so
  // must `services`. `held_before` is the CPU memory that the rest of this process holds. Throws
  // Error.
  TrainingRun(const Request& request, const Notices& notices, const detail::JobServices& services,
              const Usage& held_before = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun();

  // Trains to the end or until `stop` asks to stop, then saves and scores. Throws as Trainer::run()
  // does.
  void run(const std::vector<detail::RunObserver*>& observers = {},
           const StopRequest& stop = detail::never_stop,
           detail::WhenStopped then = detail::WhenStopped::score);

  Trainer& trainer() { return *trainer_; }
  // The request with the micro-batch that was chosen.
  const Request& request() const { return request_; }
  const Datasets& data() const { return data_; }
  Device device() const { return device_; }
  const detail::RunRecorder& recorder() const { return *recorder_; }
  // The score on the test data after run(); empty if the run was stopped before scoring.
  const std::optional<Score>& score_on_test() const { return recorder_->results().score; }
  // The peaks of memory, after a run() that took at least one step.
  const std::vector<detail::PeakOfRun>& peaks() const { return peaks_; }

 private:
  class Recording;
  void score(const std::vector<detail::RunObserver*>& observers, const StopRequest& stop);
  void save();
  // Writes the model's own file with the present weights.
  void save_model(const std::string& path);
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
  Usage own_;  // the part of the CPU memory that this holds
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

// A warning about BatchNorm that computes its statistics from a micro-batch smaller than the batch;
// empty if it does not or if every BatchNorm is frozen.
std::string about_batch_norm(const Request& request, const Training& training, Batches batches);

}  // namespace detail

}  // namespace accrue
