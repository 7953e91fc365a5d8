#include "kernels/upsample.h"

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

void upsample_nearest(View y, View x, int64_t factor) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t rows = x.shape.numel(0, 3), W = x.shape[3];
    parallel_for(rows, factor * factor * W, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* in = x.as<T>() + row * W;
        T* out = y.as<T>() + row * factor * factor * W;
        for (int64_t w = 0; w < W; ++w) std::fill_n(out + w * factor, factor, in[w]);
        for (int64_t i = 1; i < factor; ++i) std::copy_n(out, factor * W, out + i * factor * W);
      }
    });
  });
}

void upsample_nearest_backward(GradTarget dx, View dy, int64_t factor) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t rows = dx.grad.shape.numel(0, 3), W = dx.grad.shape[3];
    parallel_for(rows, factor * factor * W, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t w = 0; w < W; ++w) {
          const T* in = dy.as<T>() + (row * factor * W + w) * factor;
          Wide<T> sum = 0;
          for (int64_t i = 0; i < factor; ++i)
            for (int64_t j = 0; j < factor; ++j) sum += in[i * factor * W + j];
          T& out = dx.grad.as<T>()[row * W + w];
          out = blend(sum, dx.beta, out);
        }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::upsample_nearest) upsample_nearest;
decltype(cpu::upsample_nearest_backward) upsample_nearest_backward;
}  // namespace cuda

Tensor upsample_nearest(const Tensor& x, int64_t factor) {
  check_same("upsample_nearest", {&x});
  check(x.shape().rank() == 4 && factor >= 1,
        "[upsample_nearest] x {} and factor {}: expected x [N, C, H, W] and at least 1", x.shape(),
        factor);
  Tensor y = Tensor::empty({x.size(0), x.size(1), x.size(2) * factor, x.size(3) * factor},
                           x.dtype(), x.device());
  launch<cpu::upsample_nearest, cuda::upsample_nearest>(y.device(), y.view(), x.view(), factor);
  const Edge edge = x;
  record("upsample_nearest", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::upsample_nearest_backward, cuda::upsample_nearest_backward>(dy.device(), *dx,
                                                                              dy.view(), factor);
  });
  return y;
}

}  // namespace accrue
