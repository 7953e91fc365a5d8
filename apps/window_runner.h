#pragma once

#include <functional>

#include "apps/training.h"

namespace accrue::app {

// What --on-oom split did: window `window` of an epoch is run again, and all that follow are run,
// with smaller micro-batches.
struct Halving {
  int64_t epoch, window;
  Batches before, after;
};

// A training for --on-oom: with split the largest micro-batch, by halves, for which memory suffices
// to begin with.
Training make_training(const TrainOptions& options, Batches batches, const Dataset& data,
                       Device device);

// Runs the windows of a training, each of the same samples and as one transaction, in memory that
// may turn out too small.
//
// With OnOom::split an OutOfMemory, while a micro-batch is prepared or in its forward or backward,
// rolls the window back: gradients fresh, BatchNorm's statistics as they were. Then the micro-batch
// is halved (ceil) and the same samples run again. Weights and moments are, bit for bit, those of a
// run that uses the smaller micro-batch from that window on. At one sample the error stands, as it
// does with OnOom::fail. A step allocates nothing, so no error can come between window and step.
class WindowRunner {
 public:
  // Throws Error for OnOom::split with a strategy that cannot take a window back.
  WindowRunner(Training& training, const TrainOptions& options,
               std::function<void(const Halving&)> on_halving);

  // Accumulates window `window` of an epoch; the loader goes there unless it has just had the one
  // before. The step is the caller's. Throws what the micro-batches threw; Error, with the window
  // rolled back, if a second signal has come (apps/interrupt.h).
  void accumulate(int64_t epoch, int64_t window);

 private:
  void halve(int64_t epoch, int64_t window);
  void stop_if_interrupted_twice();

  Training& training_;
  OnOom on_oom_;
  std::function<void(const Halving&)> on_halving_;
  // Epoch and window that the loader has next.
  std::pair<int64_t, int64_t> next_{-1, -1};
};

}  // namespace accrue::app
