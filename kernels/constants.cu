#include "core/inside.h"
#include "core/launch.cuh"
#include "kernels/detail/constants.h"

namespace accrue::cuda {
namespace {

// A thread for each number, in one block.
__global__ void __launch_bounds__(Constants::most)
    write_constants_kernel(double* y, Constants piece, int64_t n) {
  if (threadIdx.x < n) y[threadIdx.x] = piece.values[threadIdx.x];
}

}  // namespace

void write_constants(View y, const Constants& piece) {
  enqueue({dim3(1), Constants::most}, write_constants_kernel, y.as<double>(), piece, y.numel());
}

}  // namespace accrue::cuda
