#include <functional>

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

}  // namespace

void add(View y, View a, View b) {
  dispatch_floating(y.dtype, [&]<class T>() {
    elementwise(y.as<T>(), 0, y.numel(), std::plus<>{}, a.as<const T>(), b.as<const T>());
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
