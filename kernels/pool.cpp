#include "kernels/pool.h"

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

// Calls body(in, out) with the offset of each window's first pixel in x and of its output in y,
// for the planes [begin, end) of x [N, C, H, W] and y [N, C, GH, GW].
template <class Body>
void for_each_window(const Shape& x, const Shape& y, int64_t stride, int64_t begin, int64_t end,
                     Body body) {
  const int64_t H = x[2], W = x[3], GH = y[2], GW = y[3];
  for (int64_t plane = begin; plane < end; ++plane)
    for (int64_t h = 0; h < GH; ++h)
      for (int64_t w = 0; w < GW; ++w)
        body((plane * H + h * stride) * W + w * stride, (plane * GH + h) * GW + w);
}

void max_pool2d(View y, View winner, View x, Pool2dShape s) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t W = x.shape[3];
    parallel_for(x.shape.numel(0, 2), x.shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      for_each_window(x.shape, y.shape, s.stride, begin, end, [&](int64_t in, int64_t out) {
        const T* window = x.as<T>() + in;
        T best = window[0];
        int64_t best_at = 0;
        for (int64_t i = 0; i < s.kernel; ++i)
          for (int64_t j = 0; j < s.kernel; ++j) {
            const T v = window[i * W + j];
            if (v > best || v != v) best = v, best_at = i * s.kernel + j;
          }
        y.as<T>()[out] = best;
        winner.as<uint8_t>()[out] = static_cast<uint8_t>(best_at);
      });
    });
  });
}

// The pixels that a beta of 0 must not read start from zero.
template <class T>
void zero_planes(GradTarget dx, int64_t begin, int64_t end) {
  const int64_t P = dx.grad.shape.numel(2, 4);
  if (dx.beta == 0) std::fill_n(dx.grad.as<T>() + begin * P, (end - begin) * P, T(0));
}

void max_pool2d_backward(GradTarget dx, View dy, View winner, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& shape = dx.grad.shape;
    parallel_for(shape.numel(0, 2), shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      zero_planes<T>(dx, begin, end);
      for_each_window(shape, dy.shape, s.stride, begin, end, [&](int64_t in, int64_t out) {
        const int64_t at = winner.as<uint8_t>()[out];
        dx.grad.as<T>()[in + at / s.kernel * shape[3] + at % s.kernel] += dy.as<T>()[out];
      });
    });
  });
}

void avg_pool2d(View y, View x, Pool2dShape s) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const T share = T(1) / static_cast<T>(s.kernel * s.kernel);
    parallel_for(x.shape.numel(0, 2), x.shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      for_each_window(x.shape, y.shape, s.stride, begin, end, [&](int64_t in, int64_t out) {
        T sum = 0;
        for (int64_t i = 0; i < s.kernel; ++i)
          for (int64_t j = 0; j < s.kernel; ++j) sum += x.as<T>()[in + i * x.shape[3] + j];
        y.as<T>()[out] = share * sum;
      });
    });
  });
}

void avg_pool2d_backward(GradTarget dx, View dy, Pool2dShape s) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const Shape& shape = dx.grad.shape;
    const T share = T(1) / static_cast<T>(s.kernel * s.kernel);
    parallel_for(shape.numel(0, 2), shape.numel(2, 4), [&](int64_t begin, int64_t end) {
      zero_planes<T>(dx, begin, end);
      for_each_window(shape, dy.shape, s.stride, begin, end, [&](int64_t in, int64_t out) {
        for (int64_t i = 0; i < s.kernel; ++i)
          for (int64_t j = 0; j < s.kernel; ++j)
            dx.grad.as<T>()[in + i * shape[3] + j] += share * dy.as<T>()[out];
      });
    });
  });
}

}  // namespace cpu

namespace {

Tensor pooled(std::string_view op, const Tensor& x, Pool2dShape s) {
  check_same(op, {&x});
  check(x.shape().rank() == 4, "[{}] x {}: expected x [N, C, H, W]", op, x.shape());
  const int64_t H = x.size(2), W = x.size(3);
  check(s.kernel > 0 && s.stride > 0 && s.kernel <= H && s.kernel <= W,
        "[{}] kernel {} and stride {} with x {}: expected both above 0 and the kernel to fit", op,
        s.kernel, s.stride, x.shape());
  return Tensor::empty(
      {x.size(0), x.size(1), (H - s.kernel) / s.stride + 1, (W - s.kernel) / s.stride + 1},
      x.dtype(), x.device());
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pool2dShape shape) {
  check(shape.kernel <= 16, "[max_pool2d] kernel {}: a byte tells at most 16 x 16 winners apart",
        shape.kernel);
  Tensor y = pooled("max_pool2d", x, shape);
  const Tensor winner = Tensor::empty(y.shape(), DType::u8, y.device());
  launch<cpu::max_pool2d>(y.device(), y.view(), winner.view(), x.view(), shape);
  const Edge edge = x;
  record("max_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::max_pool2d_backward>(dy.device(), *dx, dy.view(), winner.view(), shape);
  });
  return y;
}

Tensor avg_pool2d(const Tensor& x, Pool2dShape shape) {
  Tensor y = pooled("avg_pool2d", x, shape);
  launch<cpu::avg_pool2d>(y.device(), y.view(), x.view(), shape);
  const Edge edge = x;
  record("avg_pool2d", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::avg_pool2d_backward>(dy.device(), *dx, dy.view(), shape);
  });
  return y;
}

}  // namespace accrue
