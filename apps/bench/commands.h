#pragma once

#include <string>
#include <vector>

#include "job/request.h"

namespace accrue::app {

// `accrue bench train`: samples/s of whole windows, and the share of the machine's own GEMM rate
// (measured in between, in the same run) that their arithmetic reaches.
// With `profile`, also where the time of more windows goes, kernel by kernel.
struct BenchTrainOptions {
  double seconds = 5;
  bool profile = false;
};
Settings settings_of(BenchTrainOptions& bench, Request& options);
void bench_train(const Request& options, const BenchTrainOptions& bench);

// `accrue bench memory`: for each width and effective batch, one batch at once and every way to
// divide it, in fresh processes: peak by category, growth of the resident memory, time per sample,
// difference of the resulting weights, and in words what it costs and saves.
struct BenchMemoryOptions {
  std::vector<double> widths;  // empty: the model's --width
  std::vector<int64_t> effective_batches;
  std::vector<int64_t> micro_batches;  // empty: of 8, 16 and 32 those that are less
  std::vector<std::string> ways;       // empty: all that can run here
  std::string python = "python3";
  int64_t steps = 3, rounds = 3;
  std::string csv, report;
};
Settings settings_of(BenchMemoryOptions& bench, Request& options);
void bench_memory(const Request& options, const BenchMemoryOptions& bench);

// `accrue bench kernels`: accumulation, loss scaling and the optimizers' steps, each from the way
// everybody writes it first to the shipped kernel (accumulate/ladder/), in turns with a copy.
// Throws Error if a result is wrong.
struct BenchKernelsOptions {
  std::string model;  // whose parameters; empty: `size` bytes of layers of 4096 x 4096
  std::string size;   // empty: what no cache holds
  int64_t micro_batch = 32;
  double seconds = 5;
};
Settings settings_of(BenchKernelsOptions& bench, Request& options);
void bench_kernels(const Request& options, const BenchKernelsOptions& bench);

}  // namespace accrue::app
