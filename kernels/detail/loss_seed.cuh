#pragma once

#include "core/launch.cuh"
#include "kernels/detail/loss_seed.h"

namespace accrue::cuda {

// A grid of one thread, for kernels that cost only their launch.
constexpr int lone_thread = 1;
const Grid one_thread{dim3(1), lone_thread};

template <class T>
__global__ void __launch_bounds__(lone_thread) add_loss_kernel(Seed<T> seed) {
  seed.add_loss();
}

}  // namespace accrue::cuda
