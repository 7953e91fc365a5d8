#pragma once

#include <functional>
#include <memory>
#include <string>

#include "accumulate/ranks.h"
#include "data/samples.h"
#include "layers/module.h"
#include "train/batches.h"

namespace accrue::detail {

// Returns the i-th micro-batch of a window, counted from 0. The last one has ends_window set, or
// null follows it. Walking the window again returns the same micro-batches.
using MicroBatches = std::function<const MicroBatch*(int64_t i)>;

// The work for a micro-batch, in a pass that knows its samples.
using MicroBatchWork = std::function<void(const MicroBatch& micro_batch, const Pass& pass)>;

// A window before its gradients are added up.
struct WindowAhead {
  // Calls work() for each micro-batch in order.
  std::function<void(const MicroBatchWork& work)> walk;
  // Runs a forward and a backward of one micro-batch that leave no trace.
  MicroBatchWork rehearse;
  // Restores the module buffers from before the window.
  std::function<void()> forget;
};

// How a network goes through the micro-batches of one window: here, each by itself. Derived walks
// do work that needs all micro-batches of a window together.
class WindowWalk {
 public:
  WindowWalk() = default;
  virtual ~WindowWalk() = default;
  WindowWalk(const WindowWalk&) = delete;
  WindowWalk& operator=(const WindowWalk&) = delete;

  // Walks through the window beforehand, as often as necessary, to compute what the micro-batches
  // need from each other.
  virtual void look_ahead(const WindowAhead&) {}
  // Runs the work for the next micro-batch, its forward and its backward, or begins it.
  virtual void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) {
    work(micro_batch, pass);
  }
  // Completes what run() has begun.
  virtual void finish() {}
  // The reason why no other network can go through the window with this one; empty if one can.
  virtual std::string why_alone() const { return {}; }
};

// Makes the walk of a window. Null stands for the plain WindowWalk.
using MakeWalk = std::function<std::unique_ptr<WindowWalk>()>;

// Makes walks in which BatchNorms see the samples that `over` and `by` name: null for the
// micro-batch; for the window an InterleavedWalk, or a RepeatedWalk with at most `passes` passes.
// Null ranks: only this process.
MakeWalk batch_norm_walk(BatchNormOver over, BatchNormBy by, int64_t passes, Ranks* ranks);

}  // namespace accrue::detail
