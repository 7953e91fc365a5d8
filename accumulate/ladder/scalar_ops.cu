#include "core/inside.h"
#include "core/launch.cuh"
#include "core/view.h"

namespace accrue::ladder::cuda {
namespace {

using accrue::cuda::block_threads, accrue::cuda::enqueue, accrue::cuda::first_item,
    accrue::cuda::grid_over, accrue::cuda::item_stride;

// In all three kernels a thread processes one element at a time, with the grid as its stride. A
// warp's 32 loads of 4 bytes are adjacent, so memory is still read in whole lines. The loss is that
// each instruction requests 4 bytes where it could request 16.

__global__ void __launch_bounds__(block_threads)
    scale_kernel(float* t, const float* g, float scale, int64_t n) {
  for (int64_t i = first_item(); i < n; i += item_stride()) t[i] = scale * g[i];
}

__global__ void __launch_bounds__(block_threads) add_kernel(float* sum, const float* t, int64_t n) {
  for (int64_t i = first_item(); i < n; i += item_stride()) sum[i] += t[i];
}

__global__ void __launch_bounds__(block_threads)
    scalar_accumulate_kernel(float* sum, const float* g, float scale, int64_t n) {
  for (int64_t i = first_item(); i < n; i += item_stride()) sum[i] += scale * g[i];
}

}  // namespace

void scale_scalar(View t, View g, double scale) {
  enqueue(grid_over(g.numel()), scale_kernel, t.as<float>(), g.as<const float>(),
          static_cast<float>(scale), g.numel());
}

void add_scalar(View sum, View t) {
  enqueue(grid_over(t.numel()), add_kernel, sum.as<float>(), t.as<const float>(), t.numel());
}

void accumulate_scalar(View sum, View g, double scale) {
  enqueue(grid_over(g.numel()), scalar_accumulate_kernel, sum.as<float>(), g.as<const float>(),
          static_cast<float>(scale), g.numel());
}

}  // namespace accrue::ladder::cuda
