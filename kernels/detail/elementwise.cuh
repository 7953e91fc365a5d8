#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "core/inside.h"
#include "core/launch.cuh"
#include "kernels/backend.h"

namespace accrue::cuda {

// Consecutive elements that a thread loads or stores at once. One instruction moves them, in 16
// bytes where the addresses allow; wide elements beside 16-bit ones take two instructions.
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

// Calls update(arrays[i]...) for i in [0, n). Loads every array that is not WriteOnly, and stores
// every array that is not const.
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

// y[i] = f(inputs[i]...), which is added to y[i] if `accumulate`; y may be one of the inputs. Each
// thread takes whole vectors, a grid apart, so a warp's accesses are contiguous. The first threads
// take the elements after the last whole vector.
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

// Calls body(std::integral_constant<int, w>) with the number w of elements in a vector. A vector
// has 16 bytes if runs of `run` elements divide into such vectors and every array starts at a
// multiple of 16 bytes; else w is 1. Kernels that handle the elements after the last whole vector
// pass a run of 0.
template <class T, class Body>
void with_width(int64_t run, std::initializer_list<const void*> arrays, Body&& body) {
  constexpr int width = 16 / sizeof(T);
  const bool fits = run % width == 0 && std::ranges::all_of(arrays, [](const void* array) {
                      return is_aligned(array, 16);
                    });
  if (fits) body(std::integral_constant<int, width>{});
  else body(std::integral_constant<int, 1>{});
}

// with_width() for runs that are mostly the planes of images: 16-bit vectors may also have 4
// elements, into which every square plane of an even side divides. One of 14 x 14 does not divide
// into vectors of 8.
template <class T, class Body>
void with_plane_width(int64_t run, std::initializer_list<const void*> arrays, Body&& body) {
  const auto fits = [&](int64_t width) {
    return run % width == 0 && std::ranges::all_of(arrays, [&](const void* array) {
             return is_aligned(array, static_cast<size_t>(width) * sizeof(T));
           });
  };
  constexpr int few = 4, many = 16 / sizeof(T);
  if constexpr (few < many)
    if (!fits(many) && fits(few)) return body(std::integral_constant<int, few>{});
  with_width<T>(run, arrays, body);
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
