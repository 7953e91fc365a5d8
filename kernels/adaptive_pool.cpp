#include "kernels/adaptive_pool.h"

#include "kernels/detail/adaptive_windows.h"

namespace accrue {
namespace cpu {

void adaptive_avg_pool2d(View y, View x) {
  const AdaptiveAxis rows{x.shape[2], y.shape[2]}, columns{x.shape[3], y.shape[3]};
  dispatch_floating(x.dtype, [&]<class T>() {
    using W = Wide<T>;
    parallel_each(y.shape.numel(0, 2), x.shape.numel(2, 4) + y.shape.numel(2, 4), [&](int64_t q) {
      const T* const in = x.as<const T>() + q * rows.size * columns.size;
      T* out = y.as<T>() + q * rows.windows * columns.windows;
      for (int64_t i = 0; i < rows.windows; ++i)
        for (int64_t j = 0; j < columns.windows; ++j) {
          W sum = 0;
          for (int64_t h = rows.begin(i); h < rows.end(i); ++h)
            for (int64_t w = columns.begin(j); w < columns.end(j); ++w)
              sum += in[h * columns.size + w];
          *out++ = T(sum / static_cast<W>(rows.count(i) * columns.count(j)));
        }
    });
  });
}

// A pixel gathers from its windows, in their order.
void adaptive_avg_pool2d_backward(GradTarget dx, View dy) {
  const AdaptiveAxis rows{dx.grad.shape[2], dy.shape[2]}, columns{dx.grad.shape[3], dy.shape[3]};
  dispatch_floating(dy.dtype, [&]<class T>() {
    using W = Wide<T>;
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_each(dy.shape.numel(0, 2), dx.grad.shape.numel(2, 4), [&](int64_t q) {
        const T* const in = dy.as<const T>() + q * rows.windows * columns.windows;
        T* out = dx.grad.as<T>() + q * rows.size * columns.size;
        for (int64_t h = 0; h < rows.size; ++h)
          for (int64_t w = 0; w < columns.size; ++w) {
            W sum = 0;
            for (int64_t i = rows.first_with(h); i <= rows.last_with(h); ++i)
              for (int64_t j = columns.first_with(w); j <= columns.last_with(w); ++j)
                sum +=
                    in[i * columns.windows + j] / static_cast<W>(rows.count(i) * columns.count(j));
            store(*out++, sum, accumulate);
          }
      });
    });
  });
}

}  // namespace cpu

Tensor adaptive_avg_pool2d(const Tensor& x, int64_t GH, int64_t GW) {
  check_same("adaptive_avg_pool2d", {&x});
  check(x.shape().rank() == 4 && x.shape().numel(2, 4) > 0 && GH > 0 && GW > 0,
        "[adaptive_avg_pool2d] x {} to {} x {}: expected x [N, C, H, W] and sizes above 0",
        x.shape(), GH, GW);
  Tensor y = Tensor::empty({x.size(0), x.size(1), GH, GW}, x.dtype(), x.device());
  launch<cpu::adaptive_avg_pool2d, cuda::adaptive_avg_pool2d>(y.device(), y.view(), x.view());
  const Edge edge = x;
  record("adaptive_avg_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::adaptive_avg_pool2d_backward, cuda::adaptive_avg_pool2d_backward>(dy.device(),
                                                                                    *dx, dy.view());
  });
  return y;
}

}  // namespace accrue
