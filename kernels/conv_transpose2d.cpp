#include "kernels/conv_transpose2d.h"

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/conv_products.h"

namespace accrue {
namespace {

ConvGeometry geometry_of(const Tensor& x, const Tensor& w, const Tensor& b,
                         const ConvTranspose2dShape& s) {
  check_same("conv_transpose2d", {&x, &w, b.defined() ? &b : &w});
  check(x.shape().rank() == 4 && w.shape().rank() == 4 && x.size(1) == w.size(0) && x.numel() > 0 &&
            w.numel() > 0,
        "[conv_transpose2d] x {} and w {}: expected x [N, C, H, W] and w [C, O, KH, KW], none "
        "empty",
        x.shape(), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(1)},
        "[conv_transpose2d] b {} with w {}: expected b [{}]", b.shape(), w.shape(), w.size(1));
  const auto [stride, padding, output_padding] = s;
  check(stride > 0 && padding.before >= 0 && padding.after >= 0 && output_padding >= 0 &&
            output_padding < stride,
        "[conv_transpose2d] stride {}, padding {} and {}, output_padding {}: expected at least 1, "
        "0 and 0, and 0 to stride - 1",
        stride, padding.before, padding.after, output_padding);
  const auto image_size = [&](int64_t grid, int64_t kernel) {
    return (grid - 1) * stride - padding.before - padding.after + kernel + output_padding;
  };
  const int64_t GH = x.size(2), GW = x.size(3), KH = w.size(2), KW = w.size(3);
  check(image_size(GH, KH) > 0 && image_size(GW, KW) > 0,
        "[conv_transpose2d] x {} and w {} leave nothing after padding {} and {}", x.shape(),
        w.shape(), padding.before, padding.after);
  return {.C = w.size(1),
          .H = image_size(GH, KH),
          .W = image_size(GW, KW),
          .O = x.size(1),
          .GH = GH,
          .GW = GW,
          .KH = KH,
          .KW = KW,
          .stride = stride,
          .padding = padding.before,
          .dilation = 1};
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        ConvTranspose2dShape shape) {
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  const ConvGeometry geometry = geometry_of(x, w, b, shape);
  Tensor y = Tensor::empty({x.size(0), geometry.C, geometry.H, geometry.W}, x.dtype(), x.device());
  scatter({y.view(), 0}, x.view(), {w.view(), weight.variable()}, b.defined() ? b.view() : View{},
          geometry);

  const Edge dx_edge = x, dw_edge = weight, db_edge = bias;
  record("conv_transpose2d", y, {dx_edge, dw_edge, db_edge},
         [=, x = x.saved()](Tensor& dy) mutable {
           if (auto dw = claim_grad(dw_edge)) correlate(*dw, x.view(), dy.view(), geometry);
           x.reset();
           if (auto db = claim_grad(db_edge)) sum_channels(*db, dy.view());
           if (auto dx = claim_grad(dx_edge))
             gather(*dx, dy.view(), {w.view(), dw_edge.variable()}, {}, Activation::none, geometry);
         });
  return y;
}

}  // namespace accrue
