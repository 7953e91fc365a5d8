#include "train/window_runner.h"

namespace accrue {

Training make_training(const TrainingOptions& options, const Dataset& data, Device device) {
  const auto make = [&](int64_t micro) {
    TrainingOptions smaller = options;
    smaller.batches.micro = micro;
    smaller.dealt = options.batches.micro;
    return Training(smaller, data, device);
  };
  if (options.on_oom == OnOom::fail) return make(options.batches.micro);
  return with_fewer_samples(options.batches.micro, make);
}

WindowRunner::WindowRunner(Training& training, const TrainingOptions& options)
    : training_(training), on_oom_(options.on_oom) {
  check(on_oom_ == OnOom::fail || !drops_gradients(options.strategy),
        "to split a window that does not fit it is rolled back, which strategy {} cannot: expected "
        "fused or separate, or to fail when memory runs out",
        name_in(strategy_names(), options.strategy));
}

void WindowRunner::play(int64_t epoch, int64_t window, Observer& observer,
                        const StopRequest& stop) {
  for (const Game::Turn& turn : training_.game().turns()) {
    micro_steps(turn, epoch, window, observer, stop);
    training_.game().step(turn);
    for (const Player* player : turn) observer.on_window(*player);
  }
  training_.game().end_window();
}

void WindowRunner::micro_steps(const Game::Turn& turn, int64_t epoch, int64_t window,
                               Observer& observer, const StopRequest& stop) {
  for (;;) {
    try {
      const std::pair wanted{epoch, window};
      if (std::exchange(next_, {-1, -1}) != wanted) training_.loader().start_epoch(epoch, window);
      for (bool ended = !training_.loader().has_share(window); !ended;) {
        if (stop() == Stop::now) roll_back_and_stop(turn);
        const MicroBatch* micro_batch = training_.loader().next();
        training_.micro_step(turn, *micro_batch, epoch);
        ended = micro_batch->ends_window;
      }
      next_ = {epoch, window + 1};
      return;
    } catch (const OutOfMemory&) {
      if (on_oom_ == OnOom::fail || training_.batches().micro == 1) throw;
    }
    observer.on_halving(halve(epoch, window));
  }
}

void WindowRunner::roll_back_and_stop(const Game::Turn& turn) {
  const int64_t done = turn.front()->window.micro_batches();
  training_.game().abandon();
  throw Stopped(
      fmt::format("stopped after {} of {} micro-batches of a window, which was rolled back", done,
                  training_.batches().accumulation_steps()));
}

Halving WindowRunner::halve(int64_t epoch, int64_t window) {
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
  // The peak from here on is that of the split with which the run goes on.
  ledger(training_.device()).reset_peak();
  return {epoch, window, before, training_.batches()};
}

}  // namespace accrue
