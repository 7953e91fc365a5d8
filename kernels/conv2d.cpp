#include "kernels/conv2d.h"

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/conv_products.h"

namespace accrue {
namespace {

ConvGeometry geometry_of(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dShape& s) {
  check_same("conv2d", {&x, &w, b.defined() ? &b : &w});
  check(x.shape().rank() == 4 && w.shape().rank() == 4 && x.size(1) == w.size(1) && x.numel() > 0 &&
            w.numel() > 0,
        "[conv2d] x {} and w {}: expected x [N, C, H, W] and w [O, C, KH, KW], none empty",
        x.shape(), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "[conv2d] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), w.size(0));
  const auto [stride, padding, dilation] = s;
  check(stride > 0 && dilation > 0 && padding.before >= 0 && padding.after >= 0,
        "[conv2d] stride {}, padding {} and {}, dilation {}: expected at least 1, 0 and 0, 1",
        stride, padding.before, padding.after, dilation);
  const auto spare = [&](int64_t image, int64_t kernel) {
    return image + padding.before + padding.after - dilation * (kernel - 1) - 1;
  };
  const int64_t H = x.size(2), W = x.size(3), KH = w.size(2), KW = w.size(3);
  check(spare(H, KH) >= 0 && spare(W, KW) >= 0,
        "[conv2d] w {} with dilation {} does not fit into x {} with padding {} and {}", w.shape(),
        dilation, x.shape(), padding.before, padding.after);
  return {.C = x.size(1),
          .H = H,
          .W = W,
          .O = w.size(0),
          .GH = spare(H, KH) / stride + 1,
          .GW = spare(W, KW) / stride + 1,
          .KH = KH,
          .KW = KW,
          .stride = stride,
          .padding = padding.before,
          .dilation = dilation};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dShape shape,
              Activation activation) {
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  const ConvGeometry geometry = geometry_of(x, w, b, shape);
  const int64_t N = x.size(0);
  const DType dtype = x.dtype();
  Tensor y = Tensor::empty({N, geometry.O, geometry.GH, geometry.GW}, x.dtype(), x.device());
  launch<cpu::conv_gather, cuda::conv_gather>(
      y.device(), GradTarget{y.view(), 0}, x.view(), w.view(), b.defined() ? b.view() : View{},
      activation, geometry, conv_gather_workspace(geometry, N, dtype, x.device()).view());

  const Edge dx_edge = x, dw_edge = weight, db_edge = bias;
  record("conv2d", y, {dx_edge, dw_edge, db_edge},
         [=, x = x.detach(),
          y = activation != Activation::none ? y.detach() : Tensor()](Tensor& dy) mutable {
           const Device device = dy.device();
           if (y.defined())
             launch<cpu::activation_backward_over, cuda::activation_backward_over>(
                 device, dy.view(), y.view(), activation);
           y.reset();
           if (auto dw = claim_grad(dw_edge))
             launch<cpu::conv_correlate, cuda::conv_correlate>(
                 device, *dw, dy.view(), x.view(), geometry,
                 conv_correlate_workspace(geometry, N, dtype, device).view());
           x.reset();
           if (auto db = claim_grad(db_edge))
             launch<cpu::channel_sum, cuda::channel_sum>(
                 device, *db, dy.view(),
                 channel_sums_scratch(1, N, geometry.O, geometry.GH * geometry.GW, dtype, device)
                     .view());
           if (auto dx = claim_grad(dx_edge))
             launch<cpu::conv_scatter, cuda::conv_scatter>(
                 device, *dx, dy.view(), w.view(), View{}, geometry,
                 conv_scatter_workspace(geometry, N, dtype, device).view());
         });
  return y;
}

}  // namespace accrue
