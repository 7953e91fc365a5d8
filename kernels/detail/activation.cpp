#include "kernels/detail/activation.h"

#include "kernels/detail/formulas.h"

namespace accrue::cpu {

void relu_backward_over(View dy, View y) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    T* out = dy.as<T>();
    const T* at = y.as<T>();
    constexpr formula::WhereActive where_active;
    parallel_for(dy.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = T(where_active(widen(out[i]), widen(at[i])));
    });
  });
}

}  // namespace accrue::cpu
