#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "data/safetensors.h"
#include "train/observer.h"
#include "train/stop.h"
#include "train/training_options.h"

namespace accrue::detail {

// The networks of a training, usually one, each with its parameters, optimizer and window, and the
// loader that feeds them, on one device. It plays windows in memory that may turn out too small. On
// a meta device it charges the ledger the same bytes and computes nothing.
//
// Each turn of a window (train/game.h) is one transaction. With OnOom::split an OutOfMemory, while
// a micro-batch is prepared or in its forward or backward, rolls the turn back: gradients are
// fresh, BatchNorm's statistics as they were. Then the micro-batch is halved (ceil) and the same
// samples run again. Weights and moments are, bit for bit, those of a run that uses the smaller
// micro-batch from that turn on. At one sample, an objective that can compute a part of a sample
// goes on in pieces of half the length, then of a quarter, and so on. At the smallest the error is
// thrown, as it is with OnOom::fail. A step allocates nothing, so no error can come between window
// and step.
class Training {
 public:
  // With OnOom::split its micro-batches are as small as memory needs. Throws Error for options out
  // of range or without a model, and OutOfMemory.
  Training(const TrainingOptions& options, const Dataset& data, Device device);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Plays window `window` of an epoch: the micro-batches and the step of each of its turns. The
  // observer is told of each step that has been enqueued. Throws what the micro-batches threw, or
  // Stopped, with the turn rolled back, if `stop` says Stop::now before one of them.
  void play(int64_t epoch, int64_t window, Observer& observer,
            const StopRequest& stop = never_stop);
  // The part of play() that is one micro-batch for each player of a turn, or for the one network.
  void micro_step(const Game::Turn& turn, const MicroBatch& micro_batch, int64_t epoch) {
    game_->accumulate(turn, window_of({&micro_batch, 1}), pass(epoch), variant(epoch));
  }
  void micro_step(const MicroBatch& micro_batch, int64_t epoch) {
    micro_step(game_->all_turns().front(), micro_batch, epoch);
  }
  // What Game::accumulate() takes for this training: the pass, and a number that differs for work
  // that does, with other masks or on other memory.
  Pass pass(int64_t epoch) const;
  int64_t variant(int64_t epoch) const;

  // A player for each network.
  Game& game() { return *game_; }
  const Game& game() const { return *game_; }
  // The number of windows with a step, of the player that has taken most.
  int64_t steps() const;
  // All parameters and module buffers; with several networks under names like "generator.0.weight".
  NamedTensors named_tensors() const;

  // With several networks these return the last one's, whose answers are scored.
  const Layer& model() const { return *scored().model; }
  Parameters& parameters() { return scored().parameters; }
  Optimizer& optimizer() { return *scored().optimizer; }
  Window& window() { return scored().window; }
  const Window& window() const { return scored().window; }
  const Objective& objective() const { return *objective_; }
  Loader& loader();
  // Gives the loader's memory back. loader() then makes a new one, which must be started anew.
  void release_loader() { loader_.reset(); }
  // Its micro-batch is that with which the training goes on.
  const Batches& batches() const { return options_.batches; }
  const TrainingOptions& options() const { return options_; }
  Device device() const { return device_; }
  // True if a network has BatchNorms that are not frozen.
  bool trains_batch_norm() const;
  // The number of ranks that share the windows, this one included.
  int ranks() const;

 private:
  struct Network {
    std::unique_ptr<Layer> model;
    Parameters parameters;
    std::unique_ptr<Optimizer> optimizer;
    Window window;
    Network(const TrainingOptions& options, const PlayerOptions& own, uint64_t seed,
            const ScheduleOptions& schedule, Device device);
  };

  void make_networks();
  Network& scored() const { return *networks_.back(); }
  std::unique_ptr<Loader> make_loader() const;
  bool can_halve() const;
  Halving halve(int64_t epoch, int64_t window);
  [[noreturn]] void roll_back_and_stop(const Game::Turn& turn);

  TrainingOptions options_;  // with the batches as they are now
  const Device device_;
  const ObjectivePtr objective_;
  const Dataset data_;
  std::vector<std::unique_ptr<Network>> networks_;
  Networks by_name_;
  std::optional<Game> game_;
  std::unique_ptr<Loader> loader_;
  int64_t halved_ = 0;
};

// Returns work(n) with the largest n of samples, samples / 2, ..., 1 (ceil) for which there is
// enough memory.
template <class Work>
auto with_fewer_samples(int64_t samples, Work&& work) {
  for (;; samples = (samples + 1) / 2) try {
      return work(samples);
    } catch (const OutOfMemory&) {
      if (samples == 1) throw;
    }
}

}  // namespace accrue::detail
