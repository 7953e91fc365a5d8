#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/batches.h"
#include "train/game.h"
#include "train/objective.h"

namespace accrue {

namespace detail {

// An event of OnOom::split: window `window` of an epoch, and all later ones, run with smaller
// micro-batches.
struct Halving {
  int64_t epoch, window;
  Batches before, after;
};

}  // namespace detail

// The outcome of a window for one player. Its noise scale counts the loss's terms
// (Objective::terms_in()).
struct WindowReport : StepReport {
  int64_t epoch = 0, window = 0;          // counted from 0; windows over all epochs
  double seconds = 0;                     // Trainer::seconds() when the outcome was known
  std::string player{};                   // empty in a training with one network
  std::vector<std::string> term_names{};  // Player::terms, the names of StepReport::terms
};

// Receives the events of a run, in order. Epochs and windows are counted from 0.
class Observer {
 public:
  virtual ~Observer() = default;

  // A checkpoint cannot be used; the run tries the one before it.
  virtual void on_damaged_checkpoint(const std::string& /*reason*/) {}
  // The run resumes from a checkpoint. `differences` has a line for each setting that differs from
  // the checkpoint's run and changes the order in which sums are rounded.
  virtual void on_resume(const std::filesystem::path& /*checkpoint*/,
                         const std::string& /*differences*/) {}
  // There is no checkpoint to resume from, so the run starts from the beginning.
  virtual void on_no_checkpoint(const std::filesystem::path& /*directory*/) {}

  virtual void on_halving(const detail::Halving&) {}
  // CUDA cannot launch some work as one graph, so the run takes longer. Called once for each such
  // `line`.
  virtual void on_refused_graph(const std::string& /*line*/) {}
  // A player's step has been enqueued. Its gradients remain until the player's next window.
  virtual void on_window(const Player&) {}
  // The outcome of a window. Arrives in the order of each player's windows, up to a few windows
  // late.
  virtual void on_step(const WindowReport&) {}
  // Other data was scored after this many windows of an epoch.
  virtual void on_score(int64_t /*epoch*/, int64_t /*windows*/, const Score&, bool /*is_best*/) {}
  // An epoch has ended: all its outcomes, and the score after it, have been reported.
  virtual void on_epoch(int64_t /*epoch*/) {}
  // All outcomes so far have been reported. The run writes a checkpoint next, if it uses
  // checkpoints; called for each checkpoint and at the end.
  virtual void on_checkpoint() {}

  // The memory that this observer takes, beside the run's own.
  virtual Usage held_on(Device) const { return {}; }
};

namespace detail {

// Forwards events to several observers, in this order.
class Observers : public Observer {
 public:
  explicit Observers(std::vector<Observer*> observers) : observers_(std::move(observers)) {}

  void on_damaged_checkpoint(const std::string& reason) override {
    for (Observer* o : observers_) o->on_damaged_checkpoint(reason);
  }
  void on_resume(const std::filesystem::path& checkpoint, const std::string& differences) override {
    for (Observer* o : observers_) o->on_resume(checkpoint, differences);
  }
  void on_no_checkpoint(const std::filesystem::path& directory) override {
    for (Observer* o : observers_) o->on_no_checkpoint(directory);
  }
  void on_halving(const Halving& halving) override {
    for (Observer* o : observers_) o->on_halving(halving);
  }
  void on_refused_graph(const std::string& line) override {
    for (Observer* o : observers_) o->on_refused_graph(line);
  }
  void on_window(const Player& player) override {
    for (Observer* o : observers_) o->on_window(player);
  }
  void on_step(const WindowReport& report) override {
    for (Observer* o : observers_) o->on_step(report);
  }
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override {
    for (Observer* o : observers_) o->on_score(epoch, windows, score, is_best);
  }
  void on_epoch(int64_t epoch) override {
    for (Observer* o : observers_) o->on_epoch(epoch);
  }
  void on_checkpoint() override {
    for (Observer* o : observers_) o->on_checkpoint();
  }
  Usage held_on(Device device) const override {
    Usage all;
    for (const Observer* o : observers_)
      for (const Usage held = o->held_on(device); Category c : all_categories) all[c] += held[c];
    return all;
  }

 private:
  std::vector<Observer*> observers_;
};

}  // namespace detail

}  // namespace accrue
