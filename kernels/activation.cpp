#include "kernels/activation.h"

#include "kernels/backend.h"

namespace accrue::cpu {

void relu_backward_over(View dy, View y) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    T* out = dy.as<T>();
    const T* at = y.as<T>();
    parallel_for(dy.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = at[i] > 0 ? out[i] : T(0);
    });
  });
}

}  // namespace accrue::cpu
