#include "kernels/conv2d.h"

#include "kernels/concat.h"
#include "kernels/detail/channel_sums.h"
#include "kernels/detail/conv_products.h"
#include "kernels/rearrange.h"

namespace accrue {
namespace {

bool is_channels_last(const Conv2dShape& shape) { return shape.channels == Channels::last; }

// The geometry of x as a whole, [N, C, H, W].
ConvGeometry geometry_of(const Shape& given, const Tensor& w, const Tensor& b,
                         const Conv2dShape& s) {
  const auto [stride, padding, dilation, groups, channels] = s;
  const Shape x = is_channels_last(s) && given.rank() == 4
                      ? Shape{given[0], given[3], given[1], given[2]}
                      : given;
  check(groups > 0, "[conv2d] groups {}: expected at least 1", groups);
  check(x.rank() == 4 && w.shape().rank() == 4 && x[1] == w.size(1) * groups && x.numel() > 0 &&
            w.numel() > 0,
        "[conv2d] x {} and w {}{}: expected x {} and w [O, {}, KH, KW], none empty", given,
        w.shape(), groups == 1 ? "" : fmt::format(" with groups {}", groups),
        is_channels_last(s) ? "[N, H, W, C]" : "[N, C, H, W]", groups == 1 ? "C" : "C / groups");
  check(w.size(0) % groups == 0, "[conv2d] w {} with groups {}: expected groups to divide O",
        w.shape(), groups);
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "[conv2d] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), w.size(0));
  check(is_at_least(stride, 1) && is_at_least(dilation, 1) && is_at_least(padding.before, 0) &&
            is_at_least(padding.after, 0),
        "[conv2d] stride {}, padding {} and {}, dilation {}: expected at least 1, 0 and 0, 1",
        stride, padding.before, padding.after, dilation);
  const int64_t H = x[2], W = x[3], KH = w.size(2), KW = w.size(3);
  const PerAxis spare(H + padding.before.h + padding.after.h - dilation.h * (KH - 1) - 1,
                      W + padding.before.w + padding.after.w - dilation.w * (KW - 1) - 1);
  check(is_at_least(spare, 0),
        "[conv2d] w {} with dilation {} does not fit into x {} with padding {} and {}", w.shape(),
        dilation, given, padding.before, padding.after);
  return {.C = x[1],
          .H = H,
          .W = W,
          .O = w.size(0),
          .GH = spare.h / stride.h + 1,
          .GW = spare.w / stride.w + 1,
          .KH = KH,
          .KW = KW,
          .stride = stride,
          .padding = padding.before,
          .dilation = dilation,
          .groups = groups,
          .channels = channels};
}

std::vector<ConvGeometry> geometries_of(const std::vector<Tensor>& parts, const Tensor& w,
                                        const Tensor& b, const Conv2dShape& shape) {
  Shape whole = parts[0].shape();
  for (size_t k = 0; k < parts.size(); ++k) {
    const Shape& part = parts[k].shape();
    check_same("conv2d", {&parts[k], &w, b.defined() ? &b : &w});
    if (k == 0) continue;
    check(part.rank() == 4 && whole.rank() == 4 && part.with(1, whole[1]) == whole && part[1] > 0,
          "[conv2d] part {} is {}, after parts of {}: expected the same sizes except for the "
          "channels",
          k, part, whole);
    whole = whole.with(1, whole[1] + part[1]);
  }
  std::vector<ConvGeometry> geometries(parts.size(), geometry_of(whole, w, b, shape));
  if (parts.size() == 1) return geometries;  // also with channels last
  for (size_t k = 0; k < parts.size(); ++k) geometries[k].C = parts[k].size(1);
  return geometries;
}

// The channels [begin, begin + size) of all of w's filters.
View channels_of(View w, int64_t begin, int64_t size) {
  w.data =
      static_cast<std::byte*>(w.data) + begin * w.shape.numel(2, 4) * int64_t(size_of(w.dtype));
  w.shape = w.shape.with(1, size);
  return w;
}

// Calls body(k, filters_in, geometry) for each part; filters_in(w) is the part's channels of w.
template <class Body>
void for_each_part(const std::vector<ConvGeometry>& geometries, Body&& body) {
  for (size_t k = 0, begin = 0; k < geometries.size(); ++k) {
    const int64_t C = geometries[k].group_channels();  // several parts have one group
    body(
        k, [=](View w) { return channels_of(w, int64_t(begin), C); }, geometries[k]);
    begin += size_t(C);
  }
}

// Only a single part may have an activation.
Tensor convolve(std::vector<Tensor> parts, const Tensor& weight, const Tensor& bias,
                Conv2dShape shape, Activation activation) {
  check(!parts.empty() && parts[0].defined(), "[conv2d] there is no tensor to convolve");
  const DType dtype = parts[0].dtype();
  const Device device = parts[0].device();
  const Tensor w = operand(weight, dtype), b = operand(bias, dtype);
  const std::vector<ConvGeometry> geometries = geometries_of(parts, w, b, shape);
  const ConvGeometry& first = geometries[0];
  const int64_t N = parts[0].size(0);
  const Shape of_y = is_channels_last(shape) ? Shape{N, first.GH, first.GW, first.O}
                                             : Shape{N, first.O, first.GH, first.GW};
  Tensor y = Tensor::empty(of_y, dtype, device);
  for_each_part(geometries, [&](size_t k, const auto& filters_in, const ConvGeometry& geometry) {
    gather({y.view(), k == 0 ? 0.0f : 1.0f}, parts[k].view(),
           {filters_in(w.view()), weight.variable()}, k == 0 && b.defined() ? b.view() : View{},
           activation, geometry);
  });

  const std::vector<Edge> dx_edges(parts.begin(), parts.end());
  const Edge dw_edge = weight, db_edge = bias;
  std::vector<Edge> edges = dx_edges;
  edges.push_back(dw_edge), edges.push_back(db_edge);
  for (Tensor& part : parts) part = part.saved();
  record("conv2d", y, edges,
         [=, y = activation != Activation::none ? y.saved() : Tensor()](Tensor& dy) mutable {
           if (y.defined())
             launch<cpu::activation_backward_over, cuda::activation_backward_over>(
                 device, dy.view(), y.view(), activation);
           y.reset();
           if (auto dw = claim_grad(dw_edge))
             for_each_part(geometries, [&](size_t k, const auto& filters_in,
                                           const ConvGeometry& geometry) {
               correlate({filters_in(dw->grad), dw->beta}, dy.view(), parts[k].view(), geometry);
             });
           parts.clear();
           if (auto db = claim_grad(db_edge)) {
             View terms = dy.view();
             if (is_channels_last(shape)) terms.shape = {dy.numel() / dy.size(3), dy.size(3)};
             sum_channels(*db, terms);
           }
           for_each_part(geometries, [&](size_t k, const auto& filters_in,
                                         const ConvGeometry& geometry) {
             if (auto dx = claim_grad(dx_edges[k]))
               scatter(*dx, dy.view(), {filters_in(w.view()), dw_edge.variable()}, {}, geometry);
           });
         });
  return y;
}

// True if cuDNN computes this convolution with channels last.
bool has_kernels(const Tensor& x, const Conv2dShape& shape) {
  return plans_for_cuda(x.device()) && x.dtype() != DType::f64 && shape.groups == 1;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dShape shape,
              Activation activation) {
  if (is_channels_last(shape) && x.shape().rank() == 4 && !has_kernels(x, shape)) {
    shape.channels = Channels::first;
    return channels_last(conv2d(channels_first(x), w, b, shape, activation));
  }
  return convolve({x}, w, b, shape, activation);
}

Tensor conv2d(const std::vector<Tensor>& parts, const Tensor& w, const Tensor& b,
              Conv2dShape shape) {
  if (is_channels_last(shape)) return conv2d(concat(parts, 3), w, b, shape);
  const bool joins = parts.size() > 1 && shape.groups > 1;
  return convolve(joins ? std::vector{concat(parts, 1)} : parts, w, b, shape, Activation::none);
}

}  // namespace accrue
