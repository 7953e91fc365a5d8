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

// The networks of a training, usually one, with their parameters, optimizers and windows, and the
// loader that feeds them, on one device. It plays windows in memory that may turn out too small. On
// a meta device it charges the ledger the same bytes and computes nothing.
//
// Each turn of a window (train/game.h) is one transaction. With OnOom::split, an OutOfMemory in
// preparing a micro-batch, in its forward or in its backward rolls the turn back: gradients are
// fresh, and BatchNorm's statistics return to their values before the turn. Then the micro-batch is
// halved (rounding up) and the same samples run again. The resulting weights and moments are bit
// for bit the same as in a run that uses the smaller micro-batch from that turn on. After one
// sample, an objective that can compute parts of a sample continues with pieces of half its length,
// a quarter, and so on. If the smallest size does not fit, or with OnOom::fail, the error is
// thrown. A step allocates nothing, so no error can occur between window and step.
class Training {
 public:
  // With OnOom::split, micro-batches become as small as memory requires. Throws Error for options
  // out of range or without a model, and OutOfMemory.
  Training(const TrainingOptions& options, const Dataset& data, Device device);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Plays window `window` of an epoch: for each turn, the micro-batches and the step. Tells the
  // observer about each step that was enqueued. Throws what the micro-batches threw, or Stopped,
  // with the turn rolled back, if `stop` says Stop::now before a micro-batch.
  void play(int64_t epoch, int64_t window, Observer& observer,
            const StopRequest& stop = never_stop);
  // The part of play() for one micro-batch: for each player of a turn, or for the only network.
  void micro_step(const Game::Turn& turn, const MicroBatch& micro_batch, int64_t epoch) {
    game_->accumulate(turn, window_of({&micro_batch, 1}), pass(epoch), variant(epoch));
  }
  void micro_step(const MicroBatch& micro_batch, int64_t epoch) {
    micro_step(game_->all_turns().front(), micro_batch, epoch);
  }
  // The arguments of Game::accumulate() for this training. The variant is a number that differs
  // between different work, for example with other dropout masks or other memory.
  Pass pass(int64_t epoch) const;
  int64_t variant(int64_t epoch) const;

  // The game has a player for each network.
  Game& game() { return *game_; }
  const Game& game() const { return *game_; }
  // The number of windows with a step, for the player that has taken the most.
  int64_t steps() const;
  // All parameters and module buffers; with several networks, their names begin like
  // "generator.0.weight".
  NamedTensors named_tensors() const;

  // With several networks these return the last network's, whose answers are scored.
  const Layer& model() const { return *scored().model; }
  Parameters& parameters() { return scored().parameters; }
  Optimizer& optimizer() { return *scored().optimizer; }
  Window& window() { return scored().window; }
  const Window& window() const { return scored().window; }
  const Objective& objective() const { return *objective_; }
  Loader& loader();
  // Frees the loader's memory. loader() then makes a new one, which must be started again.
  void release_loader() { loader_.reset(); }
  // batches().micro is the size with which the training continues.
  const Batches& batches() const { return options_.batches; }
  const TrainingOptions& options() const { return options_; }
  Device device() const { return device_; }
  // True if a network has BatchNorms that are not frozen.
  bool trains_batch_norm() const;
  // The number of ranks that share the windows, including this one.
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

  const std::shared_ptr<const void> blocks_on_host_;  // unlocks what a window was offloaded to
  TrainingOptions options_;                           // with the current batches
  const Device device_;
  const ObjectivePtr objective_;
  const Dataset data_;
  std::vector<std::unique_ptr<Network>> networks_;
  Networks by_name_;
  std::optional<Game> game_;
  std::unique_ptr<Loader> loader_;
  int64_t halved_ = 0;
};

// Returns work(n) for the largest n among samples, samples / 2, ..., 1 (rounded up) that does not
// run out of memory.
template <class Work>
auto with_fewer_samples(int64_t samples, Work&& work) {
  for (;; samples = (samples + 1) / 2) try {
      return work(samples);
    } catch (const OutOfMemory&) {
      if (samples == 1) throw;
    }
}

}  // namespace accrue::detail
