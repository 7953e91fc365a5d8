#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "data/dataset.h"
#include "data/loader.h"

namespace accrue::app {

// A model with its parameters, optimizer and window, and the loader that feeds it, on one device.
// On a meta device the same object charges the same ledger bytes and computes nothing.
class Training {
 public:
  Training(const TrainOptions& options, Batches batches, const Dataset& data, Device device);

  // One micro-batch: forward, loss, backward.
  void accumulate(const MicroBatch& micro_batch, int64_t epoch);

  // Forgets the window under way and goes on with micro-batches of half the size (ceil). The loader
  // is a new one, to be started anew; without memory for it there is none, and what remains is to
  // halve again.
  void halve_micro_batch();
  // The loader is used no more: gives its memory back.
  void release_loader() { loader_.reset(); }

  const Module& model() const { return *model_; }
  Parameters& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  Window& window() { return window_; }
  Loader& loader() { return *loader_; }
  Batches batches() const { return batches_; }

 private:
  std::unique_ptr<Loader> make_loader() const;
  // Tells apart micro-steps that are not the same work: with other masks, or on other memory.
  int64_t variant(int64_t epoch) const;

  Batches batches_;
  Device device_;
  uint64_t seed_;
  Recompute recompute_;
  Shuffle shuffle_;
  bool masks_change_;  // dropout: from epoch to epoch
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

// Optimizer steps that the options ask for, if no window is skipped; never more are taken.
int64_t total_steps(const TrainOptions& options, Batches batches, int64_t samples);

// The data set of --data, on the cpu, checked to be one that the model can learn. Throws Error as
// find_dataset() does.
Datasets load_data(const TrainOptions& options);
// Where the data is to lie for a run on `device`: there, unless it would take more than a quarter
// of the device's memory (or of --memory-limit); then on the cpu, from where it is fed.
Datasets place_data(Datasets data, Device device);
// The data on the meta devices that stand for where it lies, or would lie in a run on `device` in
// `memory`: what plans are made with.
Datasets plan_data(const Datasets& data, Device device);
Datasets plan_data(const Datasets& data, Device device, size_t memory);

// The ledger's peak over two whole windows of a new Training, everything else alive included.
Usage peak_of_windows(const TrainOptions& options, Batches batches, const Dataset& data,
                      Device device);

// The same on the meta device that stands for `device`, beside what of the data lies there: the
// peak of a run.
Usage predict_peak(const TrainOptions& options, Batches batches, const Datasets& data,
                   Device device);
// The same for data that is on the meta devices already (plan_data()). Takes time for the sizes of
// micro-batches that differ, not for their number.
Usage planned_peak(const TrainOptions& options, Batches batches, const Dataset& planned,
                   Device device);

}  // namespace accrue::app
