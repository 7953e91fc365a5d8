#include "kernels/one_hot.h"

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {
namespace cpu {

void one_hot(View y, View index) {
  const int64_t N = y.shape[0], K = y.shape[1];
  const int32_t* at = index.as<int32_t>();
  dispatch_floating(y.dtype, [&]<class T>() {
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) y.as<T>()[n * K + k] = T(k == at[n] ? 1.0f : 0.0f);
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::one_hot) one_hot;
}  // namespace cuda

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  check(index.dtype() == DType::i32 && index.shape().rank() == 1 && classes >= 1,
        "[one_hot] of {} {} among {} classes: expected i32 [N] and at least 1 class",
        name(index.dtype()), index.shape(), classes);
  Tensor y = Tensor::empty({index.size(0), classes}, dtype, index.device());
  launch<cpu::one_hot, cuda::one_hot>(y.device(), y.view(), index.view());
  return y;
}

}  // namespace accrue
