#pragma once

#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"

namespace accrue::cuda {

// y = act(y + b[c]) over planes of P elements, C planes per image. Each thread takes whole vectors
// of one plane, or with P = 1 of neighbouring channels, a grid apart: a warp's accesses are
// contiguous, and the two divisions that find the channel are computed once per 16 bytes.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    channel_bias_kernel(T* y, const T* b, int64_t n, int64_t C, int64_t P, Activation activation) {
  for (int64_t v = first_item(); v < n / width; v += item_stride()) {
    auto& at = reinterpret_cast<Vector<T, width>*>(y)[v];
    Vector<T, width> values = at;
    const int64_t c = v * width / P % C;
    for (int k = 0; k < width; ++k) {
      const Wide<T> shift = b ? widen(b[P == 1 ? c + k : c]) : Wide<T>(0);
      values.values[k] = T(activate(activation, widen(values.values[k]) + shift));
    }
    at = values;
  }
}

// y[n, c, ...] = act(y[n, c, ...] + b[c]); b may be empty.
inline void add_channel_bias(View y, View b, Activation activation) {
  const int64_t n = y.numel(), C = y.shape[1], P = y.shape.numel(2, y.shape.rank());
  if (n == 0 || (!b.data && activation == Activation::none)) return;
  dispatch_floating(y.dtype, [&]<class T>() {
    const T* bias = b.data ? b.as<const T>() : nullptr;
    with_plane_width<T>(P == 1 ? C : P, {y.data}, [&](auto width) {
      enqueue(grid_over(n / width), channel_bias_kernel<width.value, T>, y.as<T>(), bias, n, C, P,
              activation);
    });
  });
}

}  // namespace accrue::cuda
