#include "kernels/pixel_shuffle.h"

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {
namespace cpu {

// Calls body(shuffled, apart, r) for each row of the larger image. Pixel w * r + j of the row at
// offset `shuffled` belongs to pixel w of the row of x that begins j planes of x after `apart`. r
// is `factor`; the value 2 is a compile-time constant, so that the compiler interleaves whole
// vectors.
template <class Body>
void for_each_shuffled_row(const Shape& x, int64_t factor, Body&& body) {
  // Each group of `factor` channels of x gives every factor-th row of a plane.
  const int64_t groups = x.numel(0, 2) / factor, H = x[2], W = x[3];
  const auto rows = [&](auto r) {
    parallel_each(groups * H, r * W, [&](int64_t row) {
      const int64_t group = row / H, h = row % H;
      body(((group / r * H + h) * r + group % r) * r * W, (group * r * H + h) * W, r);
    });
  };
  if (factor == 2) rows(std::integral_constant<int64_t, 2>{});
  else rows(factor);
}

void pixel_shuffle(View y, View x, int64_t factor) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t W = x.shape[3], plane = x.shape[2] * W;
    for_each_shuffled_row(x.shape, factor, [&](int64_t shuffled, int64_t apart, auto r) {
      T* out = y.as<T>() + shuffled;
      const T* in = x.as<T>() + apart;
      for (int64_t w = 0; w < W; ++w)
        for (int64_t j = 0; j < r; ++j) out[w * r + j] = in[j * plane + w];
    });
  });
}

void pixel_shuffle_backward(GradTarget dx, View dy, int64_t factor) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t W = dx.grad.shape[3], plane = dx.grad.shape[2] * W;
    with_beta(dx.beta, [&](auto accumulate) {
      for_each_shuffled_row(dx.grad.shape, factor, [&](int64_t shuffled, int64_t apart, auto r) {
        T* out = dx.grad.as<T>() + apart;
        const T* in = dy.as<T>() + shuffled;
        for (int64_t w = 0; w < W; ++w)
          for (int64_t j = 0; j < r; ++j) store(out[j * plane + w], in[w * r + j], accumulate);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::pixel_shuffle) pixel_shuffle;
decltype(cpu::pixel_shuffle_backward) pixel_shuffle_backward;
}  // namespace cuda

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_same("pixel_shuffle", {&x});
  check(
      x.shape().rank() == 4 && factor >= 1 && x.size(1) % factor == 0 &&
          x.size(1) / factor % factor == 0,
      "[pixel_shuffle] x {} and factor {}: expected x [N, C, H, W] with C divisible by the square "
      "of a factor of at least 1",
      x.shape(), factor);
  Tensor y = Tensor::empty(
      {x.size(0), x.size(1) / (factor * factor), x.size(2) * factor, x.size(3) * factor}, x.dtype(),
      x.device());
  launch<cpu::pixel_shuffle, cuda::pixel_shuffle>(y.device(), y.view(), x.view(), factor);
  const Edge edge = x;
  record("pixel_shuffle", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::pixel_shuffle_backward, cuda::pixel_shuffle_backward>(dy.device(), *dx, dy.view(),
                                                                        factor);
  });
  return y;
}

}  // namespace accrue
