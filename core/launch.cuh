#pragma once

#include <algorithm>
#include <cstdint>
#include <source_location>
#include <utility>

#include "core/ceil_div.h"
#include "core/cuda_context.h"

namespace accrue::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads = block_threads;
  std::source_location where = std::source_location::current();
};

// The grid of a grid-stride loop over n items, one item a thread. It has at most the number of
// blocks that the device can hold of the kernel at once, so each thread's set-up is paid once and
// not per item. The number of blocks does not change any element's result: kernels that sum choose
// their grids differently.
struct GridOver {
  GridOver(int64_t n, std::source_location where) : n(n), where(where) {}
  int64_t n;
  std::source_location where;
};
inline GridOver grid_over(int64_t n, std::source_location where = std::source_location::current()) {
  return {n, where};
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

template <class... Parameters, class... Args>
void enqueue(GridOver items, void (*kernel)(Parameters...), Args&&... args) {
  const int64_t wanted = detail::ceil_div<int64_t>(items.n, block_threads);
  const int64_t most = context().resident_blocks(reinterpret_cast<const void*>(kernel));
  const Grid grid{dim3(static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, most))), block_threads,
                  items.where};
  enqueue(grid, kernel, std::forward<Args>(args)...);
}

// A thread's first item and its step in a grid-stride loop over a one-dimensional grid.
__device__ inline int64_t first_item() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_stride() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace accrue::cuda
