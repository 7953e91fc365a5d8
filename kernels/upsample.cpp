#include "kernels/upsample.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/detail/upsample_kernels.h"

namespace accrue {
namespace cpu {

// Calls body with a version of axis.first for the kind of axis, so that loops over pixels need not
// choose, and a loop that doubles pixels is vectorised.
template <class Body>
void with_first(const ResizedAxis& axis, Body&& body) {
  if (axis.whole == 2) body([](int64_t i) { return 2 * i; });
  else if (axis.whole != 0) body([n = axis.whole](int64_t i) { return n * i; });
  else body([&](int64_t i) { return axis.first(i); });
}

// For each row of x, writes the rows of y that read it.
void resize_nearest(View y, View x) {
  const ResizedAxis rows(x.shape[2], y.shape[2]), columns(x.shape[3], y.shape[3]);
  const int64_t W = columns.in, work = y.shape.numel(2, 4) / rows.in + 1;
  dispatch_floating(x.dtype, [&]<class T>() {
    with_first(columns, [&](auto first_reader) {
      parallel_each(x.shape.numel(0, 3), work, [&](int64_t row) {
        const int64_t first = rows.first(row), last = rows.first(row + 1);
        if (first == last) return;
        const T* in = x.as<T>() + row * W;
        T* out = y.as<T>() + first * columns.out;
        for (int64_t w = 0; w < W; ++w)
          std::fill(out + first_reader(w), out + first_reader(w + 1), in[w]);
        for (int64_t h = 1; h < last - first; ++h)
          std::copy_n(out, columns.out, out + h * columns.out);
      });
    });
  });
}

// Adds up a part of a row of dx at a time, from the rows of dy that read it.
void resize_nearest_backward(GradTarget dx, View dy) {
  const ResizedAxis rows(dx.grad.shape[2], dy.shape[2]), columns(dx.grad.shape[3], dy.shape[3]);
  const int64_t W = columns.in, work = dy.shape.numel(2, 4) / rows.in + W;
  dispatch_floating(dy.dtype, [&]<class T>() {
    constexpr int64_t stretch = 64;
    with_first(columns, [&](auto first_reader) {
      parallel_each(dx.grad.shape.numel(0, 3), work, [&](int64_t row) {
        for (int64_t from = 0; from < W; from += stretch) {
          const int64_t size = std::min(stretch, W - from);
          Wide<T> sums[stretch] = {};
          for (int64_t h = rows.first(row); h < rows.first(row + 1); ++h) {
            const T* in = dy.as<T>() + h * columns.out;
            for (int64_t w = 0; w < size; ++w) {
              Wide<T> of_row = 0;
              for (int64_t k = first_reader(from + w); k < first_reader(from + w + 1); ++k)
                of_row += in[k];
              sums[w] += of_row;
            }
          }
          T* out = dx.grad.as<T>() + row * W + from;
          for (int64_t w = 0; w < size; ++w) out[w] = blend(sums[w], dx.beta, out[w]);
        }
      });
    });
  });
}

}  // namespace cpu

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

Tensor detail::resize_nearest(const Tensor& x, int64_t H, int64_t W) {
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
        "[upsample_nearest] x {} and factor {}: expected x [N, C, H, W] with pixels, factor >= 1",
        x.shape(), factor);
  return resize("upsample_nearest", x, x.size(2) * factor, x.size(3) * factor);
}

}  // namespace accrue
