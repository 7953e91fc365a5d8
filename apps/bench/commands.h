#pragma once

#include <string>
#include <vector>

#include "job/request.h"

namespace accrue::app {

// `accrue bench train`: measures samples/s over whole windows, and the share of the machine's GEMM
// rate that their arithmetic reaches. The GEMM rate is measured in the same run, in turns with the
// windows. With `profile`, also times each kernel of more windows. With `roofline`, sets the least
// time of each kernel on a GPU beside its time in the profile; without a GPU it measures nothing.
struct BenchTrainOptions {
  double seconds = 5;
  bool profile = false, roofline = false;
};
Settings settings_of(BenchTrainOptions& bench, Request& options);
void bench_train(const Request& options, const BenchTrainOptions& bench);

// `accrue bench memory`: trains each width and effective batch as a single batch and in every way
// to divide it, each in a fresh process. Reports the peak by category, the growth of resident
// memory, the time per sample and the difference of the resulting weights, and says in words what
// each way costs and saves.
struct BenchMemoryOptions {
  std::vector<double> widths;  // empty: the --width of the request
  std::vector<int64_t> effective_batches;
  std::vector<int64_t> micro_batches;  // empty: 8, 16 and 32 if less than the effective batch
  std::vector<std::string> ways;       // empty: all ways that can run here
  std::string python = "python3";
  int64_t steps = 3, rounds = 3;
  std::string csv, report;
};
Settings settings_of(BenchMemoryOptions& bench, Request& options);
void bench_memory(const Request& options, const BenchMemoryOptions& bench);

// `accrue bench kernels`: times accumulation, loss scaling and the optimizers' steps, from the most
// common implementation to the shipped kernel (accumulate/ladder/), in turns with a copy. Throws
// Error if a result is wrong.
struct BenchKernelsOptions {
  std::string model;  // gives the parameters; empty: `size` bytes in layers of 4096 x 4096
  std::string size;   // empty: more than caches hold
  int64_t micro_batch = 32;
  double seconds = 5;
};
Settings settings_of(BenchKernelsOptions& bench, Request& options);
void bench_kernels(const Request& options, const BenchKernelsOptions& bench);

}  // namespace accrue::app
