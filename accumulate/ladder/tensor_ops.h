#pragma once

#include <cmath>

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue::ladder {

// The tensor operations that make up a step in a library without fusion: each is one kernel and one
// pass over memory. They are vectorized like the shipped kernels, so that only fusion differs.
// Views are f32 [n]; y may be one of the inputs.

// Functions f for apply(), named after their formula.
struct Scale {  // scale * x
  float scale;
  HOST_DEVICE float operator()(float x) const { return scale * x; }
};
struct AddConstant {  // x + constant
  float constant;
  HOST_DEVICE float operator()(float x) const { return x + constant; }
};
struct Root {  // sqrt(x)
  HOST_DEVICE float operator()(float x) const { return std::sqrt(x); }
};
struct Lerp {  // linear interpolation from m to g
  float weight;
  HOST_DEVICE float operator()(float m, float g) const { return m + weight * (g - m); }
};
struct AddSquare {  // v + weight * g^2
  float weight;
  HOST_DEVICE float operator()(float v, float g) const { return v + weight * g * g; }
};
struct SubtractQuotient {  // w - factor * m / d
  float factor;
  HOST_DEVICE float operator()(float w, float m, float d) const { return w - factor * m / d; }
};

namespace cpu {

// y[i] = f(inputs[i]...)
template <class F, class... Inputs>
void apply(View y, F f, Inputs... inputs) {
  float* out = y.as<float>();
  parallel_for(y.numel(), 1 + sizeof...(inputs), [&](int64_t begin, int64_t end) {
    [=](auto... in) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]...);
    }(inputs.template as<const float>()...);
  });
}

}  // namespace cpu

// In tensor_ops.cu.
namespace cuda {
template <class F, class... Inputs>
void apply(View y, F f, Inputs... inputs);
}

// y[i] = f(inputs[i]...): 4 n bytes for y and for each input.
template <class F, class... Inputs>
void apply(View y, F f, Inputs... inputs) {
  launch<cpu::apply<F, Inputs...>, cuda::apply<F, Inputs...>>(y.device, y, f, inputs...);
}

// found[0] = 1 if an element of g is not finite; otherwise found is unchanged. found f32 [1]; 4 n
// bytes.
void find_nonfinite(View found, View g);

// y = x, as fast as the machine can copy: 8 n bytes.
void copy(View y, View x);

}  // namespace accrue::ladder
