#pragma once

#include <functional>
#include <memory>
#include <string>

#include "accumulate/ranks.h"
#include "data/samples.h"
#include "layers/module.h"
#include "train/batches.h"

namespace accrue::detail {

// The i-th micro-batch of a window, counted from 0. The last one says so (ends_window), or null
// follows it. Whoever walks a window again asks for the same ones.
using MicroBatches = std::function<const MicroBatch*(int64_t i)>;

// What is done with a micro-batch, in a pass that knows its samples.
using MicroBatchWork = std::function<void(const MicroBatch& micro_batch, const Pass& pass)>;

// A window before its gradients are added up.
struct WindowAhead {
  // Does the work with each micro-batch in order.
  std::function<void(const MicroBatchWork& work)> walk;
  // A forward and a backward of one that leave nothing behind.
  MicroBatchWork rehearse;
  // Brings back the module buffers of before the window.
  std::function<void()> forget;
};

// How a network goes through the micro-batches of one window: as they come, each by itself. The
// walks that derive from this one do what needs all micro-batches of a window together.
class WindowWalk {
 public:
  WindowWalk() = default;
  virtual ~WindowWalk() = default;
  WindowWalk(const WindowWalk&) = delete;
  WindowWalk& operator=(const WindowWalk&) = delete;

  // Walks through the window beforehand, as often as it must, to learn what the micro-batches need
  // of each other.
  virtual void look_ahead(const WindowAhead&) {}
  // Does the work with the next micro-batch, its forward and its backward, or begins it.
  virtual void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) {
    work(micro_batch, pass);
  }
  // Completes what run() has begun.
  virtual void finish() {}
  // Why no other network can go through the window with this one; empty if one can.
  virtual std::string why_alone() const { return {}; }
};

// Makes the walk of a window. Null stands for the plain one.
using MakeWalk = std::function<std::unique_ptr<WindowWalk>()>;

// The walks in which BatchNorms see what these say: null for a micro-batch; for a window an
// InterleavedWalk, or a RepeatedWalk of at most so many passes. No ranks: this process alone.
MakeWalk batch_norm_walk(BatchNormOver over, BatchNormBy by, int64_t passes, Ranks* ranks);

}  // namespace accrue::detail
