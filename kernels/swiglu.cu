#include <optional>

#include "kernels/detail/elementwise.cuh"
#include "kernels/pointwise.h"

namespace accrue::cuda {
namespace {

struct GatedSilu {
  template <class W>
  HOST_DEVICE W operator()(W gate, W up) const {
    return formula::Silu{}(gate)*up;
  }
};

// The target of a gradient, or null.
template <class T>
struct Out {
  T* values;
  bool accumulates;

  explicit Out(const std::optional<GradTarget>& target)
      : values(target ? target->grad.as<T>() : nullptr), accumulates(target && target->beta != 0) {}

  template <int width>
  __device__ void store(int64_t v, const Vector<Wide<T>, width>& gradient) const {
    if (!values) return;
    Vector<T, width> out;
    if (accumulates) {
      out = load_vector<width>(values, v);
      for (int w = 0; w < width; ++w) out.values[w] = T(out.values[w] + gradient.values[w]);
    } else {
      for (int w = 0; w < width; ++w) out.values[w] = T(gradient.values[w]);
    }
    store_vector(values, v, out);
  }
};

// A thread handles whole vectors, a grid apart, so a warp's accesses are contiguous. The first
// threads take the elements after the last whole vector. One thread reads a vector's operands
// before it writes either gradient, so dgate may be gate, and dup may be up. If both gradients are
// one buffer, the second adds to the values that the first has stored.
template <int width, class T, class W = Wide<T>>
__device__ void store_gradients(int64_t v, const Out<T>& dgate, const Out<T>& dup, const T* dy,
                                const T* gate, const T* up) {
  const auto dys = load_vector<width>(dy, v), gates = load_vector<width>(gate, v),
             ups = load_vector<width>(up, v);
  Vector<W, width> of_gate, of_up;
  for (int w = 0; w < width; ++w) {
    const W d = dys.values[w], x = gates.values[w];
    of_gate.values[w] = d * ups.values[w] * formula::Silu{}.slope_at(x);
    of_up.values[w] = d * formula::Silu{}(x);
  }
  dgate.store(v, of_gate);
  dup.store(v, of_up);
}

template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    swiglu_backward_kernel(Out<T> dgate, Out<T> dup, const T* dy, const T* gate, const T* up,
                           int64_t n) {
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride())
    store_gradients<width>(v, dgate, dup, dy, gate, up);
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    store_gradients<1>(i, dgate, dup, dy, gate, up);
}

}  // namespace

void swiglu(View y, View gate, View up) {
  dispatch_floating(y.dtype, [&]<class T>() {
    elementwise(y.as<T>(), 0, y.numel(), GatedSilu{}, gate.as<const T>(), up.as<const T>());
  });
}

void swiglu_backward(std::optional<GradTarget> dgate, std::optional<GradTarget> dup, View dy,
                     View gate, View up) {
  const int64_t n = dy.numel();
  if (n == 0) return;
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Out<T> to_gate(dgate), to_up(dup);
    with_width<T>(0, {to_gate.values, to_up.values, dy.data, gate.data, up.data}, [&](auto width) {
      enqueue(grid_over(n / width), swiglu_backward_kernel<width.value, T>, to_gate, to_up,
              dy.as<const T>(), gate.as<const T>(), up.as<const T>(), n);
    });
  });
}

}  // namespace accrue::cuda
