#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "data/safetensors.h"
#include "train/training_options.h"

namespace accrue {

// A model with its parameters, optimizer and window, or several that train each other, and the
// loader that feeds them, on one device. On a meta device it charges the ledger the same bytes and
// computes nothing.
class Training {
 public:
  // Throws Error for options out of range or without a model, and OutOfMemory.
  Training(const TrainingOptions& options, const Dataset& data, Device device);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Runs one micro-batch for each player whose turn it is: forward, loss, backward.
  void micro_step(const Game::Turn& turn, const MicroBatch& micro_batch, int64_t epoch);
  // As above, for a training of one network.
  void micro_step(const MicroBatch& micro_batch, int64_t epoch) {
    micro_step(game_->all_turns().front(), micro_batch, epoch);
  }

  // Forgets the turn under way and goes on with micro-batches of half the size (ceil). The loader
  // is a new one and must be started anew. If there is no memory for it, there is no loader, and
  // the caller can only halve again.
  void halve_micro_batch();
  // Gives the loader's memory back. loader() then makes a new one, which must be started anew.
  void release_loader() { loader_.reset(); }

  // A player for each network.
  Game& game() { return *game_; }
  const Game& game() const { return *game_; }
  // The number of windows with a step, of the player that has taken most.
  int64_t steps() const;
  // All parameters and module buffers; with several networks under names like "generator.0.weight".
  NamedTensors named_tensors() const;
  std::vector<const Parameters*> all_parameters() const;

  // With several networks these return the last one's, whose answers are scored.
  const Module& model() const { return *scored().model; }
  Parameters& parameters() { return scored().parameters; }
  Optimizer& optimizer() { return *scored().optimizer; }
  Window& window() { return scored().window; }
  const Window& window() const { return scored().window; }
  const Objective& objective() const { return *objective_; }
  Loader& loader();
  Batches batches() const { return batches_; }
  Device device() const { return device_; }
  // The number of ranks that share the windows, this one included.
  int ranks() const { return ranks_; }

 private:
  struct Network {
    std::unique_ptr<Module> model;
    Parameters parameters;
    std::unique_ptr<Optimizer> optimizer;
    Window window;
    Network(const TrainingOptions& own, Device device, uint64_t seed,
            const ScheduleOptions& schedule);
  };

  void add_networks(const TrainingOptions& options);
  Network& scored() const { return *networks_.back(); }
  std::unique_ptr<Loader> make_loader() const;
  // Distinguishes micro-steps that are different work: with other masks, or on other memory.
  int64_t variant(int64_t epoch) const;

  Batches batches_;
  Device device_;
  uint64_t seed_;
  Recompute recompute_;
  Graphs graphs_;
  int rank_, ranks_;
  int64_t dealt_;
  ObjectivePtr objective_;
  Shuffle shuffle_;
  std::vector<std::unique_ptr<Network>> networks_;
  Networks by_name_;
  std::optional<Game> game_;
  Dataset data_;
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

}  // namespace accrue
