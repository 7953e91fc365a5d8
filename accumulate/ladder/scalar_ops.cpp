#include "accumulate/ladder/scalar_ops.h"

#include "kernels/backend.h"

// The build forbids the compiler to vectorize this file (CMakeLists.txt); otherwise "scalar" would
// not be true.
namespace accrue::ladder {
namespace cpu {

void scale_scalar(View t, View g, double scale) {
  const float s = static_cast<float>(scale);
  float* out = t.as<float>();
  const float* in = g.as<const float>();
  parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = s * in[i];
  });
}

void add_scalar(View sum, View t) {
  float* out = sum.as<float>();
  const float* in = t.as<const float>();
  parallel_for(t.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] += in[i];
  });
}

void accumulate_scalar(View sum, View g, double scale) {
  const float s = static_cast<float>(scale);
  float* out = sum.as<float>();
  const float* in = g.as<const float>();
  parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] += s * in[i];
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::scale_scalar) scale_scalar;
decltype(cpu::add_scalar) add_scalar;
decltype(cpu::accumulate_scalar) accumulate_scalar;
}  // namespace cuda

void scale_scalar(View t, View g, double scale) {
  launch<cpu::scale_scalar, cuda::scale_scalar>(g.device, t, g, scale);
}

void add_scalar(View sum, View t) { launch<cpu::add_scalar, cuda::add_scalar>(t.device, sum, t); }

void accumulate_scalar(View sum, View g, double scale) {
  launch<cpu::accumulate_scalar, cuda::accumulate_scalar>(g.device, sum, g, scale);
}

}  // namespace accrue::ladder
