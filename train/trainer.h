#pragma once

#include <deque>
#include <limits>
#include <optional>

#include "train/checkpoints.h"
#include "train/score.h"
#include "train/skipped_windows.h"
#include "train/stopwatch.h"
#include "train/training.h"
#include "train/weights.h"

namespace accrue {

// Trains a model on a data set in windows: epochs over the data, a step for each window,
// checkpoints during the run, and smaller micro-batches if memory runs out. With
// TrainingOptions::ranks it shares each window with the trainers of other processes: call every
// function here on all of them. Several networks that train each other (TrainingOptions::players)
// play each window like a Game. Prints nothing.
//
//   Trainer trainer(options, data.train, Device::cpu);
//   trainer.resume(observer);
//   trainer.run(observer);
//   trainer.evaluate(data.test).describe();
class Trainer {
 public:
  // `data` must lie on the device or on the cpu (place_data()), and so must `scored`, the data for
  // TrainingOptions::eval_every. Throws Error for options that contradict each other, and
  // OutOfMemory.
  Trainer(const TrainingOptions& options, const Dataset& data, Device device,
          std::optional<Dataset> scored = std::nullopt);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Resumes from the latest checkpoint, if the options say so, and returns true if there is one.
  // run() does this first if you have not. Throws Error for a checkpoint of another run, and for a
  // checkpoint that is further along than this run is to go.
  bool resume(Observer& observer);
  // Write the whole state of the run as a checkpoint to a directory, whatever the options say, and
  // go on from the one that is there, however far along it is. Call them on one rank alone. Throw
  // Error if there is more than one, and for a checkpoint of another run, or none.
  void save_state(const std::string& directory);
  void restore_state(const std::string& directory);
  // Replaces the initial weights; with several networks, the last network's. A network that trains
  // alone keeps its own head if the file's head has another number of classes, or always with
  // NewHead::always. Returns that head (load_pretrained()).
  std::optional<detail::OtherHead> load_weights(const std::string& path,
                                                NewHead new_head = NewHead::of_other_size);

  // Trains until the last epoch ends or total_steps() steps are taken. Returns earlier, after a
  // checkpoint, if `stop` says so on any rank. Throws Divergence if the run has stopped making
  // progress, Stopped for Stop::now, OutOfMemory, and Error for a checkpoint that cannot be
  // written. After an exception, alternating players may be one window apart; resume() brings them
  // together.
  void run(Observer& observer, const StopRequest& stop = detail::never_stop);
  // Makes `epochs` the number of epochs at whose end run() has nothing left to do. Throws Error if
  // more epochs have ended, and for more epochs than before if a learning rate depends on how long
  // the run is.
  void set_epochs(int64_t epochs);
  // The number of epochs that have ended.
  int64_t epochs() const { return epoch_; }

  // Returns the score of the weights on other data, in micro-batches as small as memory requires.
  // With several networks, this and the functions below use the last one. Throws Stopped like
  // accrue::evaluate().
  Score evaluate(const Dataset& data, const StopRequest& stop = detail::never_stop);
  // Returns the score of the weights' moving average, or nothing if there is none.
  std::optional<Score> evaluate_average(const Dataset& data,
                                        const StopRequest& stop = detail::never_stop);
  // Write the weights or their average (train/weights.h), with TrainingOptions::about_weights. With
  // several ranks, the first one writes.
  void save_weights(const std::string& path);
  void save_average(const std::string& path);

  detail::Training& training() { return training_; }
  const TrainingOptions& options() const { return options_; }
  // The number of steps of a player that plays once in every window.
  int64_t total_steps() const { return total_steps_; }
  // The number of windows that have run, including those before resume() and those that were
  // skipped.
  int64_t windows() const;
  // True if run() has nothing left to do: the last epoch has ended, total_steps() steps are taken,
  // or scores have not improved for too long.
  bool is_finished() const;
  // The time that run() has spent on training so far, without scores, checkpoints and the
  // observer's work in on_step().
  double seconds() const { return watch_.seconds(); }
  // True if TrainingOptions::patience has ended the run.
  bool has_stopped_early() const;

 private:
  // The reports of a player's windows; `skipped` checks that the player still makes progress.
  struct PlayerReports {
    const Player& player;
    detail::SkippedWindows skipped;
    std::deque<StepReport> waiting{};  // not yet passed to the observer
    int64_t seen = 0;
    double epoch_loss_sum = 0;  // over the epoch's samples so far
    // The next report's window, counted over all epochs.
    int64_t window() const { return (seen / player.times + 1) * player.every - 1; }
  };

  std::deque<PlayerReports> reports_of_players();
  StateDict state();
  int64_t windows_per_epoch() const;
  void check_other_ranks() const;
  // True if `here` is true on any rank, so that all ranks stop together.
  bool on_any(bool here) const;
  bool evaluates_now(bool epoch_ends) const;
  void score_on_the_way(Observer& observer, const StopRequest& stop);
  void take_reports(Observer& observer, Window::Wait wait);
  void save_checkpoint(Observer& observer);
  detail::Checkpoints checkpoints_in(const std::string& directory);

  TrainingOptions options_;  // with the epochs of set_epochs()
  const Dataset data_;
  detail::Training training_;
  int64_t total_steps_;
  const double terms_of_sample_;  // of the loss (Objective::terms_in())
  detail::Stopwatch watch_;
  int64_t epoch_ = 0, window_in_epoch_ = 0;
  std::deque<PlayerReports> reports_;  // in the order of the players
  const std::optional<Dataset> scored_;
  bool has_resumed_ = false;  // also if there was no checkpoint
  double best_loss_ = std::numeric_limits<double>::infinity();
  int64_t without_better_ = 0;  // scores since the best
  detail::Checkpoints checkpoints_;
};

}  // namespace accrue
