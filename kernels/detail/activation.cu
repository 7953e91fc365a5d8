#include "kernels/detail/activation.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"

namespace accrue::cuda {

void relu_backward_over(View dy, View y) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    elementwise(dy.as<T>(), 0, dy.numel(), formula::WhereActive{}, dy.as<const T>(),
                y.as<const T>());
  });
}

}  // namespace accrue::cuda
