#pragma once

#include <utility>

#include "train/observer.h"
#include "train/stop.h"
#include "train/training.h"

namespace accrue {

// Makes a training. With OnOom::split it halves the micro-batch until there is enough memory for
// it.
Training make_training(const TrainingOptions& options, const Dataset& data, Device device);

// Runs the windows of a training in memory that may turn out too small. Windows keep their samples,
// and each turn is one transaction.
//
// With OnOom::split an OutOfMemory, while a micro-batch is prepared or in its forward or backward,
// rolls the turn back: gradients are fresh, BatchNorm's statistics as they were. Then the
// micro-batch is halved (ceil) and the same samples run again. Weights and moments are, bit for
// bit, those of a run that uses the smaller micro-batch from that turn on. At one sample the error
// is thrown, as it is with OnOom::fail. A step allocates nothing, so no error can come between
// window and step.
class WindowRunner {
 public:
  // Throws Error for OnOom::split with a strategy that cannot take a window back.
  WindowRunner(Training& training, const TrainingOptions& options);

  // Plays window `window` of an epoch: micro_steps() and the step of each of its turns. The
  // observer is told of each step that has been enqueued.
  void play(int64_t epoch, int64_t window, Observer& observer,
            const StopRequest& stop = never_stop);
  // Accumulates the micro-batches of a turn (train/game.h) of window `window` of an epoch. The
  // loader goes there unless it has just had the window before. The caller takes the step. Throws
  // what the micro-batches threw, or Stopped, with the turn rolled back, if `stop` says Stop::now.
  void micro_steps(const Game::Turn& turn, int64_t epoch, int64_t window, Observer& observer,
                   const StopRequest& stop = never_stop);

 private:
  Halving halve(int64_t epoch, int64_t window);
  void roll_back_and_stop(const Game::Turn& turn);

  Training& training_;
  OnOom on_oom_;
  // The epoch and window that the loader has next.
  std::pair<int64_t, int64_t> next_{-1, -1};
};

}  // namespace accrue
