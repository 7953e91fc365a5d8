#include "kernels/upsample.h"

#include "kernels/backend.h"
#include "kernels/detail/upsample_kernels.h"

namespace accrue {
namespace cpu {

// Each row of x makes the rows of y that read it.
void resize_nearest(View y, View x) {
  const ResizedAxis rows(x.shape[2], y.shape[2]), columns(x.shape[3], y.shape[3]);
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t W = columns.in, work = y.shape.numel(2, 4) / rows.in + 1;
    parallel_for(x.shape.numel(0, 3), work, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = rows.first(row), last = rows.first(row + 1);
        if (first == last) continue;
        const T* in = x.as<T>() + row * W;
        T* out = y.as<T>() + first * columns.out;
        for (int64_t w = 0, to = 0; w < W; ++w) {
          const int64_t next = columns.first(w + 1);
          std::fill(out + to, out + next, in[w]);
          to = next;
        }
        for (int64_t h = 1; h < last - first; ++h)
          std::copy_n(out, columns.out, out + h * columns.out);
      }
    });
  });
}

void resize_nearest_backward(GradTarget dx, View dy) {
  const ResizedAxis rows(dx.grad.shape[2], dy.shape[2]), columns(dx.grad.shape[3], dy.shape[3]);
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t W = columns.in, work = dy.shape.numel(2, 4) / rows.in + W;
    const T* in = dy.as<T>();
    parallel_for(dx.grad.shape.numel(0, 3), work, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = rows.first(row), last = rows.first(row + 1);
        for (int64_t w = 0, from = 0; w < W; ++w) {
          const int64_t next = columns.first(w + 1);
          Wide<T> sum = 0;
          for (int64_t i = first; i < last; ++i)
            for (int64_t j = from; j < next; ++j) sum += in[i * columns.out + j];
          T& out = dx.grad.as<T>()[row * W + w];
          out = blend(sum, dx.beta, out);
          from = next;
        }
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::resize_nearest) resize_nearest;
decltype(cpu::resize_nearest_backward) resize_nearest_backward;
}  // namespace cuda

namespace {

Tensor resize(std::string_view op, const Tensor& x, int64_t H, int64_t W) {
  Tensor y = Tensor::empty({x.size(0), x.size(1), H, W}, x.dtype(), x.device());
  launch<cpu::resize_nearest, cuda::resize_nearest>(y.device(), y.view(), x.view());
  const Edge edge = x;
  record(op, y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::resize_nearest_backward, cuda::resize_nearest_backward>(dy.device(), *dx,
                                                                          dy.view());
  });
  return y;
}

bool has_pixels(const Tensor& x) {
  return x.shape().rank() == 4 && x.size(2) >= 1 && x.size(3) >= 1;
}

}  // namespace

Tensor resize_nearest(const Tensor& x, int64_t H, int64_t W) {
  check_same("resize_nearest", {&x});
  check(has_pixels(x) && H >= 1 && W >= 1,
        "[resize_nearest] x {} to {} x {}: expected x [N, C, H, W], and at least 1 x 1 pixels of "
        "both",
        x.shape(), H, W);
  return resize("resize_nearest", x, H, W);
}

Tensor upsample_nearest(const Tensor& x, int64_t factor) {
  check_same("upsample_nearest", {&x});
  check(has_pixels(x) && factor >= 1,
        "[upsample_nearest] x {} and factor {}: expected x [N, C, H, W] with pixels and at least 1",
        x.shape(), factor);
  return resize("upsample_nearest", x, x.size(2) * factor, x.size(3) * factor);
}

}  // namespace accrue
