#include "kernels/detail/elementwise.cuh"
#include "kernels/pointwise.h"

namespace accrue::cuda {
namespace {

// dy * f'(kept)
template <class F>
struct TimesSlope {
  F f;
  template <class T>
  HOST_DEVICE T operator()(T dy, T kept) const {
    return dy * f.slope_at(kept);
  }
};

}  // namespace

void map(View y, View x, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_floating(
            x.dtype, [&]<class T>() { elementwise(y.as<T>(), 0, x.numel(), f, x.as<const T>()); });
      },
      formula);
}

void map_backward(GradTarget dx, View dy, View kept, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_floating(dy.dtype, [&]<class T>() {
          elementwise(dx.grad.as<T>(), dx.beta, dy.numel(), TimesSlope<decltype(f)>{f},
                      dy.as<const T>(), kept.as<const T>());
        });
      },
      formula);
}

}  // namespace accrue::cuda
