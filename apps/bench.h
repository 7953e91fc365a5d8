#pragma once

#include <string>
#include <vector>

#include "apps/options.h"

namespace accrue::app {

// `accrue bench train`: samples/s of whole windows, and the share of the machine's own GEMM rate
// (measured in between, in the same run) that their arithmetic reaches.
void bench_train(const TrainOptions& options, double seconds);

// `accrue bench memory`: one fresh process per micro-batch size, and one without accumulation:
// peak by category, peak resident memory, time per sample, difference of the resulting weights.
struct BenchMemoryOptions {
  std::vector<int64_t> micro_batches{8, 16, 32};
  int64_t steps = 3;
  std::string csv;
};
void add_memory_bench_options(CLI::App& command, TrainOptions& options, BenchMemoryOptions& bench);
void bench_memory(const TrainOptions& options, const BenchMemoryOptions& bench);

// `accrue bench kernels`: accumulation, loss scaling and the optimizers' steps, each from the way
// everybody writes it first to the shipped kernel (apps/study/), in turns with a copy. Throws Error
// if a result is wrong.
struct BenchKernelsOptions {
  std::string model;  // whose parameters; empty: `size` bytes of layers of 4096 x 4096
  std::string size;   // empty: what no cache holds
  int64_t micro_batch = 32;
  double seconds = 5;
};
void add_kernels_bench_options(CLI::App& command, TrainOptions& options,
                               BenchKernelsOptions& bench);
void bench_kernels(const TrainOptions& options, const BenchKernelsOptions& bench);

}  // namespace accrue::app
