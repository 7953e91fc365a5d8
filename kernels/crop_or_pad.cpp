#include "kernels/crop_or_pad.h"

#include "kernels/detail/copy_shifted.h"

namespace accrue {
namespace cpu {

void copy_shifted(GradTarget target, View source, Shift shift) {
  const Shape &to = target.grad.shape, &from = source.shape;
  const int64_t H = to[2], W = to[3];
  // The columns [begin, end) of a row have a source.
  const int64_t begin = std::clamp<int64_t>(-shift.columns, 0, W);
  const int64_t end = std::clamp<int64_t>(from[3] - shift.columns, begin, W);
  dispatch_floating(source.dtype, [&]<class T>() {
    with_beta(target.beta, [&](auto accumulate) {
      parallel_each(to.numel(0, 3), W, [&](int64_t row) {
        T* const out = target.grad.as<T>() + row * W;
        const int64_t h = row % H + shift.rows;
        const bool inside = h >= 0 && h < from[2];
        const T* const in = source.as<T>() + (row / H * from[2] + h) * from[3] + shift.columns;
        const auto zeros = [&](int64_t w, int64_t until) {
          for (; w < until; ++w) store(out[w], Wide<T>(0), accumulate);
        };
        zeros(0, inside ? begin : W);
        if (!inside) return;
        for (int64_t w = begin; w < end; ++w) store(out[w], widen(in[w]), accumulate);
        zeros(end, W);
      });
    });
  });
}

}  // namespace cpu

namespace {

// y [N, C, H, W], y[n, c, i, j] = x[n, c, i + from.rows, j + from.columns].
Tensor shifted(std::string_view op, const Tensor& x, Shift from, int64_t H, int64_t W) {
  Tensor y = Tensor::empty({x.size(0), x.size(1), H, W}, x.dtype(), x.device());
  launch<cpu::copy_shifted, cuda::copy_shifted>(y.device(), GradTarget{y.view(), 0}, x.view(),
                                                from);
  const Edge edge = x;
  record(op, y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::copy_shifted, cuda::copy_shifted>(dy.device(), *dx, dy.view(),
                                                    Shift{-from.rows, -from.columns});
  });
  return y;
}

}  // namespace

Tensor detail::crop_or_pad(const Tensor& x, int64_t H, int64_t W) {
  check_same("crop_or_pad", {&x});
  check(x.shape().rank() == 4 && H > 0 && W > 0,
        "[crop_or_pad] x {} to {}x{}: expected x [N, C, H, W] and a size above 0", x.shape(), H, W);
  return shifted("crop_or_pad", x, {0, 0}, H, W);
}

Tensor crop(const Tensor& x, int64_t top, int64_t left, int64_t H, int64_t W) {
  check_same("crop", {&x});
  check(x.shape().rank() == 4 && H > 0 && W > 0 && top >= 0 && left >= 0 && top + H <= x.size(2) &&
            left + W <= x.size(3),
        "[crop] x {} to {}x{} from row {} and column {}: expected x [N, C, H, W] and a part of it",
        x.shape(), H, W, top, left);
  return shifted("crop", x, {top, left}, H, W);
}

}  // namespace accrue
