#pragma once

#include <cstdint>

#include "core/launch.cuh"
#include "kernels/backend.h"

namespace accrue::cuda {

// Consecutive elements that one instruction loads or stores: 16 bytes where the addresses allow.
template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
  T values[width];
};

// y[i] = f(inputs[i]...), added to y[i] if it accumulates; y may be one of the inputs. A thread has
// whole vectors, a grid apart, so that a warp's accesses are contiguous; the first threads take
// the elements after the last whole vector.
template <int width, bool accumulate, class T, class F, class... Inputs>
__global__ void __launch_bounds__(block_threads)
    elementwise_kernel(T* y, int64_t n, F f, const Inputs*... inputs) {
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    using Out = Vector<T, width>;
    Out out;
    if constexpr (accumulate) out = reinterpret_cast<const Out*>(y)[v];
    [&](auto... in) {
      for (int w = 0; w < width; ++w)
        store(out.values[w], f(in.values[w]...), std::bool_constant<accumulate>{});
    }(reinterpret_cast<const Vector<Inputs, width>*>(inputs)[v]...);
    reinterpret_cast<Out*>(y)[v] = out;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    store(y[i], f(inputs[i]...), std::bool_constant<accumulate>{});
}

template <class T>
bool is_aligned(const T* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

// y[i] = f(inputs[i]...) + beta * y[i] for i in [0, n), y may be one of the inputs. f is a functor
// whose call operator is HOST_DEVICE and returns a T.
template <class T, class F, class... Inputs>
void elementwise(T* y, float beta, int64_t n, F f, const Inputs*... inputs) {
  if (n == 0) return;
  constexpr int width = 16 / sizeof(T);
  const bool whole_vectors =
      is_aligned(y, 16) && (is_aligned(inputs, sizeof(Inputs) * width) && ...);
  with_beta(beta, [&](auto accumulate) {
    if (whole_vectors)
      enqueue(grid_over(n / width), elementwise_kernel<width, accumulate.value, T, F, Inputs...>, y,
              n, f, inputs...);
    else
      enqueue(grid_over(n), elementwise_kernel<1, accumulate.value, T, F, Inputs...>, y, n, f,
              inputs...);
  });
}

}  // namespace accrue::cuda
