#include "apps/window_runner.h"

#include "apps/interrupt.h"

namespace accrue::app {

Training make_training(const TrainOptions& options, Batches batches, const Dataset& data,
                       Device device) {
  const auto make = [&](int64_t micro) {
    return Training(options, {micro, batches.effective}, data, device);
  };
  if (options.on_oom == OnOom::fail) return make(batches.micro);
  return with_fewer_samples(batches.micro, make);
}

WindowRunner::WindowRunner(Training& training, const TrainOptions& options,
                           std::function<void(const Halving&)> on_halving)
    : training_(training), on_oom_(options.on_oom), on_halving_(std::move(on_halving)) {
  check(on_oom_ == OnOom::fail || !drops_gradients(options.strategy),
        "--on-oom split rolls a window back, which --strategy {} cannot: expected fused or "
        "separate, or --on-oom fail",
        name_in(strategy_names(), options.strategy));
}

void WindowRunner::accumulate(int64_t epoch, int64_t window) {
  for (;;) {
    try {
      const std::pair wanted{epoch, window};
      if (std::exchange(next_, {-1, -1}) != wanted) training_.loader().start_epoch(epoch, window);
      for (bool ended = false; !ended;) {
        stop_if_interrupted_twice();
        const MicroBatch* micro_batch = training_.loader().next();
        training_.accumulate(*micro_batch, epoch);
        ended = micro_batch->ends_window;
      }
      next_ = {epoch, window + 1};
      return;
    } catch (const OutOfMemory&) {
      if (on_oom_ == OnOom::fail || training_.batches().micro == 1) throw;
    }
    halve(epoch, window);
  }
}

void WindowRunner::stop_if_interrupted_twice() {
  if (!interrupted_twice()) return;
  const int64_t done = training_.window().micro_batches();
  training_.window().abandon();
  fail("interrupted twice: stopped after {} of {} micro-batches of a window, which was rolled back",
       done, training_.batches().accumulation_steps());
}

void WindowRunner::halve(int64_t epoch, int64_t window) {
  const Batches before = training_.batches();
  // The loader of the smaller micro-batch may not fit either: its slots hold a group of them.
  for (bool made = false; !made;) {
    try {
      training_.halve_micro_batch();
      made = true;
    } catch (const OutOfMemory&) {
      if (training_.batches().micro == 1) throw;
    }
  }
  on_halving_({epoch, window, before, training_.batches()});
}

}  // namespace accrue::app
