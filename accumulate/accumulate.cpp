#include "accumulate/accumulate.h"

#include "accumulate/accumulate_kernels.h"

namespace accrue {
namespace cpu {

void accumulate(View sum, View g, double scale, View enabled) {
  if (enabled.data && *enabled.as<const double>() == 0) return;
  dispatch_sum(sum, g, [&]<class T, class G>() {
    T* out = sum.as<T>();
    const G* in = g.as<const G>();
    const T s = static_cast<T>(scale);
    parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] += s * in[i];
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::accumulate) accumulate;
}  // namespace cuda

void accumulate(View sum, View g, double scale, View enabled) {
  const bool widens = (sum.dtype == DType::f32 && is_16_bit_dtype(g.dtype)) ||
                      (sum.dtype == DType::f64 && g.dtype == DType::f32);
  check(sum.shape == g.shape && sum.device == g.device && (sum.dtype == g.dtype || widens),
        "[accumulate] sum {} {} on {} and g {} {} on {}: expected the same, or g in 16 bits under "
        "a float32 sum, or in float32 under a float64 one",
        name(sum.dtype), sum.shape, name(sum.device), name(g.dtype), g.shape, name(g.device));
  launch<cpu::accumulate, cuda::accumulate>(g.device, sum, g, scale, enabled);
}

}  // namespace accrue
