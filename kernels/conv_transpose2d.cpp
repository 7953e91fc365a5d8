#include "kernels/conv_transpose2d.h"

#include <algorithm>

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/conv_products.h"

namespace accrue {
namespace {

ConvGeometry geometry_of(const Tensor& x, const Tensor& w, const Tensor& b,
                         const ConvTranspose2dShape& s) {
  check_same("conv_transpose2d", {&x, &w, b.defined() ? &b : &w});
  const auto [stride, padding, output_padding, groups, dilation] = s;
  check(groups > 0, "[conv_transpose2d] groups {}: expected at least 1", groups);
  check(x.shape().rank() == 4 && w.shape().rank() == 4 && x.size(1) == w.size(0) && x.numel() > 0 &&
            w.numel() > 0,
        "[conv_transpose2d] x {} and w {}: expected x [N, C, H, W] and w [C, O, KH, KW], none "
        "empty",
        x.shape(), w.shape());
  check(x.size(1) % groups == 0,
        "[conv_transpose2d] x {} with groups {}: expected groups to divide C", x.shape(), groups);
  const int64_t O = w.size(1) * groups;
  check(!b.defined() || b.shape() == Shape{O}, "[conv_transpose2d] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), O);
  check(is_at_least(stride, 1) && is_at_least(dilation, 1) && is_at_least(padding.before, 0) &&
            is_at_least(padding.after, 0) && is_at_least(output_padding, 0) &&
            output_padding.h < std::max(stride.h, dilation.h) &&
            output_padding.w < std::max(stride.w, dilation.w),
        "[conv_transpose2d] stride {}, padding {} and {}, dilation {}, output_padding {}: expected "
        "at least 1, 0 and 0, 1, and 0 to less than stride or dilation",
        stride, padding.before, padding.after, dilation, output_padding);
  const int64_t GH = x.size(2), GW = x.size(3), KH = w.size(2), KW = w.size(3);
  const PerAxis image((GH - 1) * stride.h - padding.before.h - padding.after.h +
                          dilation.h * (KH - 1) + 1 + output_padding.h,
                      (GW - 1) * stride.w - padding.before.w - padding.after.w +
                          dilation.w * (KW - 1) + 1 + output_padding.w);
  check(is_at_least(image, 1),
        "[conv_transpose2d] x {} and w {} leave nothing after padding {} and {}", x.shape(),
        w.shape(), padding.before, padding.after);
  return {.C = O,
          .H = image.h,
          .W = image.w,
          .O = x.size(1),
          .GH = GH,
          .GW = GW,
          .KH = KH,
          .KW = KW,
          .stride = stride,
          .padding = padding.before,
          .dilation = dilation,
          .groups = groups};
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
