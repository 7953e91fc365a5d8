#pragma once

#include <map>
#include <string>
#include <vector>

#include "accumulate/ranks.h"
#include "accumulate/window.h"
#include "data/samples.h"
#include "tests/support/op_table.h"

// A window that PyTorch took as one batch, in steps of Adam from the same weights (record() in
// scripts/golden_files.py). Tests take it here in micro-batches.
namespace accrue::test {

using MicroBatchSizes = std::vector<int64_t>;

constexpr int64_t golden_window_size = 12;
constexpr int golden_steps = 10;
// Whole, in halves, uneven, and sample by sample.
extern const std::vector<MicroBatchSizes> golden_splits;

// The tensors of tests/golden/NAME.safetensors.
std::map<std::string, Tensor> golden_tensors(const std::string& name);
Tensor as_f64(const Tensor& source, Device device);
// The window in micro-batches of these sizes, whose samples have the numbers 0, 1, ...
std::vector<MicroBatch> micro_batches_of(const Samples& window, const MicroBatchSizes& split);
// A rank's part of the micro-batches; the first ranks may have one more. Without ranks it returns
// all.
std::vector<MicroBatch> share_of(Ranks* ranks, const std::vector<MicroBatch>& all);

struct WindowOutcome {
  std::vector<double> losses, norms;                 // of each step
  std::map<std::string, Values> gradients, weights;  // of the first step; after the last one

  // Adds the step that the window has just taken. Throws Error if it was skipped.
  void add_step(Window& window);
  void set_weights(const Parameters& parameters);
};
// The largest difference in losses, in the final weights that `expected` has, and in the norms and
// gradients that `found` has.
double difference(const WindowOutcome& found, const WindowOutcome& expected);
// The outcome of the case "all" in golden_tensors() after that many steps. Final weights are stored
// for golden_steps alone; the losses of fewer steps show the weights of all but the last.
WindowOutcome by_pytorch(const std::map<std::string, Tensor>& stored, int steps = golden_steps);

}  // namespace accrue::test
