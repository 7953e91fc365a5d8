#include "kernels/detail/wide_runs.h"

namespace accrue::cpu {
namespace {

template <class Body>
void dispatch_16_bit(DType dtype, Body&& body) {
  check(is_16_bit_dtype(dtype), "expected f16 or bf16, got {}", name(dtype));
  if (dtype == DType::f16) body.template operator()<Half>();
  else body.template operator()<BFloat16>();
}

}  // namespace

void widen_run(float* out, const View& x, int64_t first, int64_t n) {
  dispatch_16_bit(x.dtype, [&]<class T>() {
    const T* in = x.as<const T>() + first;
    for (int64_t i = 0; i < n; ++i) out[i] = in[i];
  });
}

void round_run(const View& y, int64_t first, const float* values, int64_t n) {
  dispatch_16_bit(y.dtype, [&]<class T>() {
    T* out = y.as<T>() + first;
    for (int64_t i = 0; i < n; ++i) out[i] = T(values[i]);
  });
}

}  // namespace accrue::cpu
