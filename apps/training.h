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

  const Sequential& model() const { return *model_; }
  Parameters& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  Window& window() { return window_; }
  Loader& loader() { return loader_; }
  Batches batches() const { return batches_; }

 private:
  Batches batches_;
  uint64_t seed_;
  bool masks_change_;  // dropout: from epoch to epoch
  std::unique_ptr<Sequential> model_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  Window window_;
  Loader loader_;
};

// Optimizer steps that the options ask for.
int64_t total_steps(const TrainOptions& options, Batches batches, int64_t samples);

struct Score {
  double loss = 0;
  int64_t correct = 0, samples = 0;
  double accuracy() const { return 100.0 * double(correct) / double(samples); }
};
// Mean loss and correct answers of a model on `device` over a data set, in eval mode, in pieces of
// `micro_batch`.
Score evaluate(const Module& model, const Dataset& data, int64_t micro_batch, Device device);

// Where the data is to lie for a run on `device`: there, unless it would take more than a quarter
// of the device's memory (or of --memory-limit); then on the cpu, from where it is fed.
Datasets place_data(Datasets data, Device device);

// The ledger's peak over two whole windows of a new Training, everything else alive included.
Usage peak_of_windows(const TrainOptions& options, Batches batches, const Dataset& data,
                      Device device);

// The same on the meta device that stands for `device`, beside what of the data lies there: the
// peak of a run.
Usage predict_peak(const TrainOptions& options, Batches batches, const Datasets& data,
                   Device device);

}  // namespace accrue::app
