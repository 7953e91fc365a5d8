#include <functional>

#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

template <class T>
struct Times {
  T factor;
  HOST_DEVICE T operator()(T x) const { return factor * x; }
};

// The factor is in the device's memory, as f32 or as f64; the other pointer is null. Every thread
// reads it.
template <class T>
struct TimesValue {
  const float* f32;
  const double* f64;
  HOST_DEVICE T operator()(T x) const { return (f64 ? T(*f64) : T(*f32)) * x; }
};

struct ReluOfSum {
  template <class T>
  HOST_DEVICE T operator()(T a, T b) const {
    return formula::Relu{}(a + b);
  }
};

// A target of add_relu_backward(), or none.
template <class T>
struct ReluTarget {
  T* grad;
  float beta;

  explicit ReluTarget(const std::optional<GradTarget>& target)
      : grad(target ? target->grad.as<T>() : nullptr), beta(target ? target->beta : 0) {}

  // Stores dz of vector v. All threads take the same branches.
  template <int width>
  __device__ void store_sum(int64_t v, const Wide<T> (&dz)[width]) const {
    if (!grad) return;
    Vector<T, width> sum;
    if (beta == 0) {
      for (int w = 0; w < width; ++w) sum.values[w] = T(dz[w]);
    } else {
      sum = load_vector<width>(grad, v);
      for (int w = 0; w < width; ++w) store(sum.values[w], dz[w], std::true_type{});
    }
    store_vector(grad, v, sum);
  }
};

// Both gradients of a vector have one thread, which reads dy and y before it writes, because a
// target may be dy. The first threads take the elements after the last whole vector.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    add_relu_backward_kernel(ReluTarget<T> da, ReluTarget<T> db, const T* dy, const T* y,
                             int64_t n) {
  constexpr formula::Backward<formula::Relu> through{};
  const int64_t vectors = n / width;
  for (int64_t v = first_item(); v < vectors; v += item_stride()) {
    const auto dys = load_vector<width>(dy, v), ys = load_vector<width>(y, v);
    Wide<T> dz[width];
    for (int w = 0; w < width; ++w) dz[w] = through(widen(dys.values[w]), widen(ys.values[w]));
    da.template store_sum<width>(v, dz);
    db.template store_sum<width>(v, dz);
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride()) {
    const Wide<T> dz[1] = {through(widen(dy[i]), widen(y[i]))};
    da.template store_sum<1>(i, dz);
    db.template store_sum<1>(i, dz);
  }
}

}  // namespace

void add(View y, View a, View b) {
  dispatch_floating(y.dtype, [&]<class T>() {
    elementwise(y.as<T>(), 0, y.numel(), std::plus<>{}, a.as<const T>(), b.as<const T>());
  });
}

void add_relu(View y, View a, View b) {
  dispatch_floating(y.dtype, [&]<class T>() {
    elementwise(y.as<T>(), 0, y.numel(), ReluOfSum{}, a.as<const T>(), b.as<const T>());
  });
}

void add_relu_backward(std::optional<GradTarget> da, std::optional<GradTarget> db, View dy,
                       View y) {
  if (dy.numel() == 0) return;
  dispatch_floating(dy.dtype, [&]<class T>() {
    const ReluTarget<T> first(da), second(db);
    const auto or_dy = [&](const ReluTarget<T>& target) -> const void* {
      return target.grad ? target.grad : dy.data;
    };
    with_width<T>(0, {or_dy(first), or_dy(second), dy.data, y.data}, [&](auto width) {
      enqueue(grid_over(dy.numel() / width), add_relu_backward_kernel<width.value, T>, first,
              second, dy.as<const T>(), y.as<const T>(), dy.numel());
    });
  });
}

void multiply(GradTarget y, View a, View b) {
  dispatch_floating(a.dtype, [&]<class T>() {
    elementwise(y.grad.as<T>(), y.beta, a.numel(), std::multiplies<>{}, a.as<const T>(),
                b.as<const T>());
  });
}

void scale(GradTarget y, View x, double factor) {
  const bool unchanged = y.grad.data == x.data && y.beta == 0 && factor == 1;
  if (unchanged) return;
  dispatch_floating(x.dtype, [&]<class T>() {
    elementwise(y.grad.as<T>(), y.beta, x.numel(), Times<Wide<T>>{static_cast<Wide<T>>(factor)},
                x.as<const T>());
  });
}

void scale_by(GradTarget y, View x, View factor) {
  const bool is_f64 = factor.dtype == DType::f64;
  dispatch_floating(x.dtype, [&]<class T>() {
    elementwise(y.grad.as<T>(), y.beta, x.numel(),
                TimesValue<Wide<T>>{is_f64 ? nullptr : factor.as<const float>(),
                                    is_f64 ? factor.as<const double>() : nullptr},
                x.as<const T>());
  });
}

}  // namespace accrue::cuda
