#pragma once

#include <memory>

#include "data/loader.h"
#include "optim/window.h"
#include "train/training_options.h"

namespace accrue {

// A model with its parameters, optimizer and window, and the loader that feeds it, on one device.
// On a meta device the same object charges the same ledger bytes and computes nothing.
class Training {
 public:
  // Throws Error for options out of range or without a model, and OutOfMemory.
  Training(const TrainingOptions& options, const Dataset& data, Device device);

  // One micro-batch: forward, loss, backward.
  void micro_step(const MicroBatch& micro_batch, int64_t epoch);

  // Forgets the window under way and goes on with micro-batches of half the size (ceil). The loader
  // is a new one, to be started anew; without memory for it there is none, and what remains is to
  // halve again.
  void halve_micro_batch();
  // Gives the loader's memory back. loader() then makes a new one, to be started anew.
  void release_loader() { loader_.reset(); }

  const Module& model() const { return *model_; }
  const Objective& objective() const { return *objective_; }
  Parameters& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  Window& window() { return window_; }
  const Window& window() const { return window_; }
  Loader& loader();
  Batches batches() const { return batches_; }
  Device device() const { return device_; }

 private:
  std::unique_ptr<Loader> make_loader() const;
  // Tells apart micro-steps that are not the same work: with other masks, or on other memory.
  int64_t variant(int64_t epoch) const;

  Batches batches_;
  Device device_;
  uint64_t seed_;
  Recompute recompute_;
  ObjectivePtr objective_;
  Shuffle shuffle_;
  std::unique_ptr<Module> model_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  Window window_;
  Dataset data_;
  std::unique_ptr<Loader> loader_;
  int64_t halved_ = 0;
};

// work(n) with the largest n of samples, samples / 2, ..., 1 (ceil) for which memory suffices.
template <class Work>
auto with_fewer_samples(int64_t samples, Work&& work) {
  for (;; samples = (samples + 1) / 2) try {
      return work(samples);
    } catch (const OutOfMemory&) {
      if (samples == 1) throw;
    }
}

}  // namespace accrue
