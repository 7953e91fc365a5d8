#include <functional>

#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

template <class T>
struct Times {
  T factor;
  HOST_DEVICE T operator()(T x) const { return factor * x; }
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

}  // namespace accrue::cuda
