#include "kernels/activation.h"

#include "kernels/backend.h"

namespace accrue::cpu {

void activation_backward_over(View dy, View y, Activation activation) {
  if (activation == Activation::none) return;
  with_formula(activation, [&]<class F>(F f) {
    dispatch_floating(dy.dtype, [&]<class T>() {
      T* out = dy.as<T>();
      const T* at = y.as<T>();
      const formula::Backward<F> through{f};
      parallel_each(dy.numel(), 1,
                    [&](int64_t i) { out[i] = T(through(widen(out[i]), widen(at[i]))); });
    });
  });
}

}  // namespace accrue::cpu
