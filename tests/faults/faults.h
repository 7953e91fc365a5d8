#pragma once

#include "core/autograd.h"
#include "core/inside.h"

namespace accrue::test {

// Bugs that a CUDA kernel may have. Only the runner is sure to show a race, because it orders the
// threads.
enum class Fault {
  none,
  missing_barrier,  // a block's sum without __syncthreads
  overrun,          // a gradient's kernel writes one element too many
  overwritten       // = for +=
};

// On Device::cuda: y = sum_i x[i], with a planted fault.
void total_kernel(View y, View x, Fault fault);
// dx[i] = dy + beta * dx[i], with a planted fault.
void total_backward_kernel(GradTarget dx, View dy, Fault fault);

}  // namespace accrue::test
