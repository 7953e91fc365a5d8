#pragma once

#include <algorithm>
#include <cstdint>
#include <source_location>
#include <utility>

#include "core/cuda_context.h"

namespace accrue::cuda {

// Threads of a block, for every kernel that does not say otherwise: eight warps, of which enough
// blocks fit on a multiprocessor to fill it.
inline constexpr int block_threads = 256;
// Blocks of 256 threads that a multiprocessor holds at most.
inline constexpr int resident_blocks = 8;

struct Grid {
  dim3 blocks;
  dim3 threads = block_threads;
  std::source_location where = std::source_location::current();
};

// Blocks for grid-stride loops over n items, one item a thread: no more than the device can hold
// at once, so that a thread's set-up is paid once and not per item.
inline Grid grid_over(int64_t n, std::source_location where = std::source_location::current()) {
  const int64_t wanted = (n + block_threads - 1) / block_threads;
  const int64_t most = int64_t{resident_blocks} * context().multiprocessors();
  return {dim3(static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, most))), block_threads, where};
}

// Enqueues a kernel on the stream. Throws Error if CUDA refuses it.
template <class... Parameters, class... Args>
void enqueue(Grid grid, void (*kernel)(Parameters...), Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.stream = context().stream();
  check_call(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), "launch a kernel",
             grid.where);
}

// A thread's first item and its step in a grid-stride loop over a one-dimensional grid.
__device__ inline int64_t first_item() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_stride() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace accrue::cuda
