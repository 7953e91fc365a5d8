#include "kernels/elementwise.cuh"
#include "kernels/formulas.h"

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

template <class F>
void map(View y, View x, F f) {
  dispatch_floating(x.dtype,
                    [&]<class T>() { elementwise(y.as<T>(), 0, x.numel(), f, x.as<const T>()); });
}

template <class F>
void map_backward(GradTarget dx, View dy, View kept, F f) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    elementwise(dx.grad.as<T>(), dx.beta, dy.numel(), TimesSlope<F>{f}, dy.as<const T>(),
                kept.as<const T>());
  });
}

template void map(View, View, formula::Relu);
template void map(View, View, formula::LeakyRelu);
template void map(View, View, formula::Sigmoid);
template void map(View, View, formula::Tanh);
template void map(View, View, formula::Gelu);
template void map(View, View, formula::Silu);
template void map_backward(GradTarget, View, View, formula::Relu);
template void map_backward(GradTarget, View, View, formula::LeakyRelu);
template void map_backward(GradTarget, View, View, formula::Sigmoid);
template void map_backward(GradTarget, View, View, formula::Tanh);
template void map_backward(GradTarget, View, View, formula::Gelu);
template void map_backward(GradTarget, View, View, formula::Silu);

}  // namespace accrue::cuda
