#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {

void activation_backward_over(View dy, View y, Activation activation) {
  if (activation == Activation::none) return;
  with_formula(activation, [&]<class F>(F f) {
    dispatch_floating(dy.dtype, [&]<class T>() {
      elementwise(dy.as<T>(), 0, dy.numel(), formula::Backward<F>{f}, dy.as<const T>(),
                  y.as<const T>());
    });
  });
}

}  // namespace accrue::cuda
