#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "optim/window.h"
#include "train/batches.h"

namespace accrue {

// OnOom::split at work: window `window` of an epoch, and all that follow, run with smaller
// micro-batches.
struct Halving {
  int64_t epoch, window;
  Batches before, after;
};

// Is told what happens in a run, in order. Epochs and windows are counted from 0.
class Observer {
 public:
  virtual ~Observer() = default;

  // A checkpoint cannot be used; the one before it is tried.
  virtual void on_damaged_checkpoint(const std::string& /*reason*/) {}
  // The run goes on from a checkpoint. `differences` has a line for each setting that makes sums
  // round in another order than in the run that wrote it.
  virtual void on_resume(const std::filesystem::path& /*checkpoint*/,
                         const std::string& /*differences*/) {}
  // There is no checkpoint to go on from, so the run starts from the beginning.
  virtual void on_no_checkpoint(const std::filesystem::path& /*directory*/) {}

  virtual void on_halving(const Halving&) {}
  // A window's step is enqueued. Its gradients are there until the next window.
  virtual void on_window(Window&) {}
  // The outcome of a window, in the order of the windows, up to a few windows later.
  virtual void on_step(int64_t /*epoch*/, const StepReport&) {}
  // All windows so far are told, and a checkpoint is written next, if the run has any: on its way
  // and at its end.
  virtual void on_checkpoint() {}
};

// Tells several, in this order.
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
  void on_window(Window& window) override {
    for (Observer* o : observers_) o->on_window(window);
  }
  void on_step(int64_t epoch, const StepReport& report) override {
    for (Observer* o : observers_) o->on_step(epoch, report);
  }
  void on_checkpoint() override {
    for (Observer* o : observers_) o->on_checkpoint();
  }

 private:
  std::vector<Observer*> observers_;
};

}  // namespace accrue
