// The op: its kernels on the CPU, then its backward. Every kernel that computes a gradient writes
// dst = value + beta * dst, and does not read dst if beta is 0.

#include "scale_features.h"

#include <accrue/own_op.h>

using namespace accrue;

namespace custom {
namespace cpu {

// y = x * a + beta * y; y may be x.
void multiply_rows(GradTarget y, View x, View a) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], I = x.shape[1];
    const T *in = x.as<T>(), *factor = a.as<T>();
    T* out = y.grad.as<T>();
    with_beta(y.beta, [&](auto accumulate) {
      parallel_for(N, I, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          for (int64_t i = 0; i < I; ++i)
            store(out[n * I + i], in[n * I + i] * factor[i], accumulate);
      });
    });
  });
}

// da = sum over the rows of dy * x, + beta * da. A thread owns a range of features, so the sums
// need no atomics and have the same bits in every run.
void sum_products(GradTarget da, View dy, View x) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], I = x.shape[1];
    const T *d = dy.as<T>(), *in = x.as<T>();
    T* out = da.grad.as<T>();
    parallel_for(I, N, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (int64_t n = 0; n < N; ++n) sum += double(d[n * I + i]) * double(in[n * I + i]);
        out[i] = blend(static_cast<T>(sum), da.beta, out[i]);
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::multiply_rows) multiply_rows;
decltype(cpu::sum_products) sum_products;
}  // namespace cuda

Tensor scale_features(const Tensor& x, const Tensor& a) {
  check_same("scale_features", {&x, &a});
  check(x.shape().rank() == 2 && a.shape() == Shape{x.size(1)},
        "[scale_features] x {} and a {}: expected x [N, I] and a [I]", x.shape(), a.shape());
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::multiply_rows, cuda::multiply_rows>(y.device(), GradTarget{y.view(), 0}, x.view(),
                                                  a.view());
  record("scale_features", y, {x, a},
         [dx_edge = Edge(x), da_edge = Edge(a), x = x.saved(), a = a.saved()](Tensor& dy) {
           // Claim, launch, then claim the next.
           if (auto da = claim_grad(da_edge))
             launch<cpu::sum_products, cuda::sum_products>(dy.device(), *da, dy.view(), x.view());
           // Last, because dx may be dy.
           if (auto dx = claim_grad_over(dx_edge, dy))
             launch<cpu::multiply_rows, cuda::multiply_rows>(dy.device(), *dx, dy.view(), a.view());
         });
  return y;
}

}  // namespace custom
