#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "core/inside.h"
#include "core/launch.cuh"
#include "kernels/backend.h"

namespace accrue::cuda {

// Consecutive elements that one instruction loads or stores, 16 bytes where the addresses allow; or
// two, of those that are wide beside 16-bit ones.
template <class T, int width>
struct alignas(sizeof(T) * width < 16 ? sizeof(T) * width : 16) Vector {
  T values[width];
};

// An array that update_each() stores to and does not load.
template <class T>
struct WriteOnly {
  T* array;
  __device__ T& operator[](int64_t i) const { return array[i]; }
};

template <int width, class T>
__device__ Vector<std::remove_const_t<T>, width> load_vector(T* array, int64_t v) {
  return reinterpret_cast<const Vector<std::remove_const_t<T>, width>*>(array)[v];
}
template <int width, class T>
__device__ Vector<T, width> load_vector(WriteOnly<T>, int64_t) {
  return {};
}

template <int width, class T>
__device__ void store_vector(T* array, int64_t v, const Vector<T, width>& values) {
  reinterpret_cast<Vector<T, width>*>(array)[v] = values;
}
template <int width, class T>
__device__ void store_vector(const T*, int64_t, const Vector<T, width>&) {}
template <int width, class T>
__device__ void store_vector(WriteOnly<T> to, int64_t v, const Vector<T, width>& values) {
  store_vector(to.array, v, values);
}

// update(arrays[i]...) for i in [0, n): loads every array but those that are WriteOnly, stores
// those that are not const.
template <int width, class Update, class... Arrays>
__device__ void update_each(int64_t n, const Update& update, Arrays... arrays) {
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    [&](auto... loaded) {
      for (int k = 0; k < width; ++k) update(loaded.values[k]...);
      (store_vector(arrays, v, loaded), ...);
    }(load_vector<width>(arrays, v)...);
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride()) update(arrays[i]...);
}

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
        store(out.values[w], f(widen(in.values[w])...), std::bool_constant<accumulate>{});
    }(reinterpret_cast<const Vector<Inputs, width>*>(inputs)[v]...);
    reinterpret_cast<Out*>(y)[v] = out;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    store(y[i], f(widen(inputs[i])...), std::bool_constant<accumulate>{});
}

inline bool is_aligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

// Calls body(std::integral_constant<int, w>) with the elements of a vector: w elements of T are 16
// bytes if runs of `run` elements divide into such vectors and every array starts at 16 bytes, else
// w is 1. A run of 0 is for kernels that take care of the elements after the last whole vector.
template <class T, class Body>
void with_width(int64_t run, std::initializer_list<const void*> arrays, Body&& body) {
  constexpr int width = 16 / sizeof(T);
  const bool fits = run % width == 0 && std::ranges::all_of(arrays, [](const void* array) {
                      return is_aligned(array, 16);
                    });
  if (fits) body(std::integral_constant<int, width>{});
  else body(std::integral_constant<int, 1>{});
}

// y[i] = f(inputs[i]...) + beta * y[i] for i in [0, n), y may be one of the inputs. f is a functor
// whose call operator is HOST_DEVICE, takes Wide<Inputs>... and returns a Wide<T>.
template <class T, class F, class... Inputs>
void elementwise(T* y, float beta, int64_t n, F f, const Inputs*... inputs) {
  if (n == 0) return;
  with_beta(beta, [&](auto accumulate) {
    with_width<T>(0, {y, inputs...}, [&](auto width) {
      enqueue(grid_over(n / width),
              elementwise_kernel<width.value, accumulate.value, T, F, Inputs...>, y, n, f,
              inputs...);
    });
  });
}

}  // namespace accrue::cuda
