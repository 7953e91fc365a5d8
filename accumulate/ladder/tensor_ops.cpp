#include "accumulate/ladder/tensor_ops.h"

#include <atomic>
#include <cstring>

namespace accrue::ladder {
namespace cpu {

void find_nonfinite(View found, View g) {
  const float* in = g.as<const float>();
  parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
    int any = 0;
    // A number that is not finite minus itself is NaN.
    for (int64_t i = begin; i < end; ++i) any |= in[i] - in[i] != 0;
    if (any) std::atomic_ref(*found.as<float>()).store(1);
  });
}

void copy(View y, View x) {
  parallel_for(x.numel(), 1, [&](int64_t begin, int64_t end) {
    std::memcpy(y.as<float>() + begin, x.as<const float>() + begin,
                static_cast<size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::find_nonfinite) find_nonfinite;
decltype(cpu::copy) copy;
}  // namespace cuda

void find_nonfinite(View found, View g) {
  launch<cpu::find_nonfinite, cuda::find_nonfinite>(g.device, found, g);
}

void copy(View y, View x) { launch<cpu::copy, cuda::copy>(x.device, y, x); }

}  // namespace accrue::ladder
