#include <cmath>
#include <numbers>

#include "kernels/concat.h"
#include "kernels/detail/adaptive_windows.h"
#include "kernels/detail/conv_products.h"
#include "kernels/detail/copy_columns.h"
#include "kernels/detail/copy_shifted.h"
#include "kernels/detail/matmul.h"
#include "kernels/detail/norm_kernels.h"
#include "kernels/detail/resize_kernels.h"
#include "kernels/detail/scale.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "onnx/writer/onnx_trace.h"

// Kernels that are declared only in the sources of their ops, where their contracts are. If the
// arguments here differed, linking would fail.
namespace accrue::cpu {

void add(View y, View a, View b);
void add_relu(View y, View a, View b);
void multiply(GradTarget y, View a, View b);
void scale_add(View y, View x, View gamma, View a);
void swiglu(View y, View gate, View up);
void map(View y, View x, const formula::AnyPointwise& formula);
void copy_columns(GradTarget to, Columns to_columns, View from, Columns from_columns, int64_t rows,
                  int64_t width);
void linear_forward(View y, View x, View w, View b, Activation activation, Transpose w_op,
                    View workspace);
void add_linear_forward(View y, View a, View x, View w, View b, Transpose w_op, View workspace);
void spectral_normalize(View y, View sigma, View partials, View w, View u, View v);
void group_moments(View mean, View spread, Spread kind, View x, Grouping at, double eps,
                   Running running, View scratch);
void given_moments(View mean, View rstd, View given_mean, View given_var, double eps);
void normalize(View y, View x, Normalizer by, View gamma, View beta, Activation activation);
void norm_forward(View y, Normalizer by, View x, double eps, Running running, AffineMap map);
void max_pool2d(View y, View winner, View x, Pool2dShape shape, Activation activation);
void avg_pool2d(View y, View x, Pool2dShape shape);
void global_avg_pool2d(View y, View x, Channels channels);
void resize_nearest(View y, View x);
void make_taps(TapTable table, TapsOf of);
void resize(GradTarget y, View x, TapTable rows, TapTable columns);
void pixel_shuffle(View y, View x, int64_t factor);

}  // namespace accrue::cpu

namespace accrue {
namespace {

using Name = OnnxTrace::Name;
using Integers = OnnxTrace::Integers;

// The nodes of an activation.
struct Activated {
  OnnxTrace& to;
  const Name& x;

  Name operator()(formula::Unchanged) const { return x; }
  Name operator()(formula::Relu) const { return to.graph.add("Relu", {x}); }
  Name operator()(formula::LeakyRelu f) const {
    return to.graph.add("LeakyRelu", {x}, {{"alpha", f.slope}});
  }
  Name operator()(formula::Sigmoid) const { return to.graph.add("Sigmoid", {x}); }
  Name operator()(formula::Tanh) const { return to.graph.add("Tanh", {x}); }
  Name operator()(formula::Silu) const { return to.silu(x); }
  // x * (1 + erf(x / sqrt(2))) / 2
  Name operator()(formula::Gelu) const {
    const Name erf = to.graph.add("Erf", {to.multiply(x, 1 / std::numbers::sqrt2)});
    return to.multiply(to.multiply(x, to.sum(erf, to.graph.number(1))), 0.5);
  }
  // x * sigmoid(x * (a + b * x^2))
  Name operator()(formula::GeluTanh) const {
    const double a = 2 * std::sqrt(2 / std::numbers::pi), b = 0.044715 * a;
    const Name slope = to.sum(to.multiply(to.multiply(x, x), b), to.graph.number(a));
    return to.multiply(x, to.graph.add("Sigmoid", {to.multiply(x, slope)}));
  }
  // Any other activation.
  template <class Formula>
  Name operator()(Formula) const {
    fail("the activation {} has no counterpart in ONNX: a network that needs it cannot be exported",
         Formula::name);
  }
};

// concat() copies its tensors one after the other; this joins their values in the graph.
void join(OnnxTrace& to, const View& y, const Columns& at, const View& from, int64_t rows,
          int64_t width) {
  std::vector<Name>& parts = to.parts[y.data];
  parts.push_back(to.in(from));
  if (at.begin + width < at.stride) return;
  int64_t axis = y.shape.rank() - 1;
  while (y.shape.numel(0, int(axis)) != rows) --axis;
  to.define(y, to.graph.add("Concat", parts, {{"axis", axis}}));
}

void product(OnnxTrace& to, const GradTarget& c, const View& a, const View& b, Transpose a_op,
             Transpose b_op) {
  const auto is_transposed = [](Transpose op) { return int64_t(op == Transpose::yes); };
  to.define(c, to.graph.add("Gemm", {to.in(a), to.in(b)},
                            {{"transA", is_transposed(a_op)}, {"transB", is_transposed(b_op)}}));
}

Name linear(OnnxTrace& to, const View& x, const View& w, const View& b, Transpose w_op) {
  std::vector<Name> inputs{to.in(x), to.in(w)};
  if (b.data) inputs.push_back(to.in(b));
  return to.graph.add("Gemm", inputs, {{"transB", int64_t(w_op == Transpose::yes)}});
}

// The weights. If w is a part of each filter's channels, a constant with that part.
Name filters(OnnxTrace& to, const View& w, const ConvGeometry& g) {
  if (!g.has_part_of_w()) return to.in(w);
  std::vector<float> part;
  for (int64_t o = 0; o < g.O; ++o) {
    const float* const filter = w.as<const float>() + o * g.filter_step();
    part.insert(part.end(), filter, filter + g.taps());
  }
  return to.graph.numbers(part, {g.O, g.group_channels(), g.KH, g.KW});
}

// The attributes of a convolution whose last tap lies `rows` and `columns` outside the image.
OnnxGraph::Attributes attributes_of(const ConvGeometry& g, int64_t rows, int64_t columns) {
  OnnxGraph::Attributes attributes{
      {"kernel_shape", Integers{g.KH, g.KW}},
      {"strides", Integers{g.stride.h, g.stride.w}},
      {"dilations", Integers{g.dilation.h, g.dilation.w}},
      {"pads", Integers{g.padding.h, g.padding.w, std::max<int64_t>(rows, 0),
                        std::max<int64_t>(columns, 0)}}};
  if (g.groups > 1) attributes.emplace_back("group", g.groups);
  return attributes;
}

// How far the taps of the last cell reach beyond an image: less than 0 where they end within it.
PerAxis reach(const ConvGeometry& g) {
  return {(g.GH - 1) * g.stride.h - g.padding.h + g.dilation.h * (g.KH - 1) + 1 - g.H,
          (g.GW - 1) * g.stride.w - g.padding.w + g.dilation.w * (g.KW - 1) + 1 - g.W};
}

// x [N, C, H, W]. Attributes such as pads are computed from H and W.
Name image(OnnxTrace& to, const View& x) {
  const OnnxTrace::FreeShape shape = to.free_shape(x.shape);
  check(!shape.is_free(2) && !shape.is_free(3),
        "images {} whose sides grow with the number of samples have no counterpart in ONNX: "
        "expected samples or channels in front",
        x.shape);
  return to.in(x);
}

std::vector<Name> operands(OnnxTrace& to, const View& x, const Name& w, const View& b) {
  std::vector<Name> inputs{image(to, x), w};
  if (b.data) inputs.push_back(to.in(b));
  return inputs;
}

void convolve(OnnxTrace& to, const GradTarget& y, const View& x, const View& w, const View& b,
              Activation activation, const ConvGeometry& g) {
  const auto attributes = attributes_of(g, reach(g).h, reach(g).w);
  const Name z = to.graph.add("Conv", operands(to, x, filters(to, w, g), b), attributes);
  to.define(y, to.activated(z, activation));
}

void convolve_transposed(OnnxTrace& to, const GradTarget& y, const View& x, const View& w,
                         const View& b, const ConvGeometry& g) {
  const auto [rows, columns] = reach(g);
  auto attributes = attributes_of(g, rows, columns);
  attributes.emplace_back("output_padding",
                          Integers{std::max<int64_t>(-rows, 0), std::max<int64_t>(-columns, 0)});
  to.define(y, to.graph.add("ConvTranspose", operands(to, x, filters(to, w, g), b), attributes));
}

// gamma or beta [C]; without it, C times the value `otherwise`.
Name per_channel(OnnxTrace& to, const View& v, int64_t C, float otherwise) {
  if (v.data) return to.in(v);
  return to.graph.numbers(std::vector<float>(size_t(C), otherwise), {C});
}

// x * gamma[c] + beta[c], where channels are the second dimension of x.
Name scaled(OnnxTrace& to, Name x, const View& gamma, const View& beta, int rank) {
  Integers sizes(size_t(rank - 1), 1);
  sizes.front() = -1;
  if (gamma.data) x = to.multiply(x, to.graph.reshape(to.in(gamma), sizes));
  if (beta.data) x = to.sum(x, to.graph.reshape(to.in(beta), sizes));
  return x;
}

// x / sqrt(mean(x^2) + eps) * gamma
Name rms_normalized(OnnxTrace& to, const View& x, double eps, const View& gamma) {
  const Name values = to.in(x);
  const Name mean =
      to.graph.add("ReduceMean", {to.multiply(values, values)}, {{"axes", Integers{-1}}});
  const Name deviation = to.graph.add("Sqrt", {to.sum(mean, to.graph.number(eps))});
  const Name y = to.graph.add("Div", {values, deviation});
  return gamma.data ? to.multiply(y, to.in(gamma)) : y;
}

// ONNX has no group norm before opset 18, so groups are normalized as if they were channels.
Name group_normalized(OnnxTrace& to, const View& x, const Grouping& at, double eps,
                      const View& gamma, const View& beta) {
  const OnnxGraph::Attributes attributes{{"epsilon", eps}};
  const int64_t G = at.per_sample();
  if (at.K == 1)
    return to.graph.add("InstanceNormalization",
                        {to.in(x), per_channel(to, gamma, G, 1), per_channel(to, beta, G, 0)},
                        attributes);
  const Name groups = to.graph.reshape(to.in(x), {0, G, -1});
  const Name y =
      to.graph.add("InstanceNormalization",
                   {groups, per_channel(to, {}, G, 1), per_channel(to, {}, G, 0)}, attributes);
  const auto sizes = x.shape.sizes();
  Integers shape(sizes.begin(), sizes.end());
  shape.front() = 0;
  // The last size is never free here; [0, C, ..., -1] would work as well.
  return scaled(to, to.graph.reshape(y, shape), gamma, beta, x.shape.rank());
}

Name normalized(OnnxTrace& to, const View& x, const Normalizer& by, const View& gamma,
                const View& beta) {
  const auto found = to.moments.find(by.rstd.data);
  check(found != to.moments.end(),
        "a norm by the moments of other images has no counterpart in ONNX");
  const auto& [eps, mean, var] = found->second;
  const Grouping& at = by.at;
  const OnnxGraph::Attributes attributes{{"epsilon", eps}};
  if (by.source == Source::constant)
    return to.graph.add("BatchNormalization",
                        {to.in(x), per_channel(to, gamma, at.C, 1), per_channel(to, beta, at.C, 0),
                         to.in(mean), to.in(var)},
                        attributes);
  check(
      at.over == Grouping::Over::sample,
      "a batch norm by its micro-batch's moments has no counterpart in ONNX: expected evaluation");
  const bool is_of_rows = at.S == 1 && at.K == at.C && x.shape[-1] == at.C;
  if (!by.mean.data) return rms_normalized(to, x, eps, gamma);
  if (!is_of_rows) return group_normalized(to, x, at, eps, gamma, beta);
  std::vector<Name> inputs{to.in(x), per_channel(to, gamma, at.C, 1)};
  if (beta.data) inputs.push_back(to.in(beta));
  return to.graph.add("LayerNormalization", inputs, attributes);
}

// Windows that ceil_mode adds reach beyond the padding, which is then larger behind the image.
OnnxGraph::Attributes attributes_of(const Pool2dShape& s, const View& y, const View& x) {
  const auto behind = [&](int dim, int64_t PerAxis::*at) {
    const int64_t reached = (y.shape[dim] - 1) * (s.stride.*at) +
                            (s.kernel.*at - 1) * (s.dilation.*at) + 1 - s.padding.*at;
    return s.ceil_mode ? std::max(reached - x.shape[dim], s.padding.*at) : s.padding.*at;
  };
  return {
      {"kernel_shape", Integers{s.kernel.h, s.kernel.w}},
      {"strides", Integers{s.stride.h, s.stride.w}},
      {"pads", Integers{s.padding.h, s.padding.w, behind(2, &PerAxis::h), behind(3, &PerAxis::w)}}};
}

// Where windows that ceil_mode adds end beyond a padding that counts, x is padded before: ONNX
// would count all that they cover.
void average(OnnxTrace& to, const View& y, const View& x, const Pool2dShape& s) {
  auto attributes = attributes_of(s, y, x);
  auto& pads = std::get<Integers>(attributes.back().second);
  Name in = image(to, x);
  const PerAxis beyond(pads[2] - s.padding.h, pads[3] - s.padding.w);
  if (s.count_include_pad && beyond != 0) {
    if (s.padding != 0)
      in = to.graph.add("Pad", {in, to.graph.integers({0, 0, s.padding.h, s.padding.w, 0, 0,
                                                       s.padding.h, s.padding.w})});
    pads = {0, 0, beyond.h, beyond.w};
  } else if (s.padding != 0 && s.count_include_pad) {
    attributes.emplace_back("count_include_pad", int64_t{1});
  }
  to.define(y, to.graph.add("AveragePool", {in}, attributes));
}

// [windows, size], or [size, windows] for columns: the part of each pixel in the means of windows.
Name means(OnnxTrace& to, const AdaptiveAxis& axis, bool are_columns) {
  const auto [size, windows] = axis;
  std::vector<float> parts(size_t(size * windows));
  for (int64_t w = 0; w < windows; ++w)
    for (int64_t i = axis.begin(w); i < axis.end(w); ++i)
      parts[size_t(are_columns ? i * windows + w : w * size + i)] = 1 / float(axis.count(w));
  return to.graph.numbers(parts, are_columns ? Shape{size, windows} : Shape{windows, size});
}

// Windows of one size, or of several, which ONNX has as products alone.
void average_adaptively(OnnxTrace& to, const View& y, const View& x) {
  const int64_t H = x.shape[2], W = x.shape[3], GH = y.shape[2], GW = y.shape[3];
  if (H % GH == 0 && W % GW == 0) return average(to, y, x, {.kernel = PerAxis(H / GH, W / GW)});
  const Name rows = to.graph.add("MatMul", {means(to, {H, GH}, false), image(to, x)});
  to.define(y, to.graph.add("MatMul", {rows, means(to, {W, GW}, true)}));
}

// A negative pad crops.
void shift(OnnxTrace& to, const GradTarget& y, const View& x, const Shift& by) {
  const Shape& from = x.shape;
  const int64_t rows = y.grad.shape[2] - from[2] + by.rows;
  const int64_t columns = y.grad.shape[3] - from[3] + by.columns;
  const Integers pads{0, 0, -by.rows, -by.columns, 0, 0, rows, columns};
  to.define(y, to.graph.add("Pad", {image(to, x), to.graph.integers(pads)}));
}

void resize(OnnxTrace& to, const View& y, const View& x) {
  check(y.shape[2] % x.shape[2] == 0 && y.shape[3] % x.shape[3] == 0,
        "resizing {} to {} has no counterpart in ONNX: expected a multiple of its height and width",
        x.shape, y.shape);
  const Name scales =
      to.graph.numbers({1, 1, float(y.shape[2] / x.shape[2]), float(y.shape[3] / x.shape[3])}, {4});
  to.define(y, to.graph.add("Resize", {image(to, x), "", scales},
                            {{"mode", "nearest"},
                             {"nearest_mode", "floor"},
                             {"coordinate_transformation_mode", "asymmetric"}}));
}

// The scale, in float32, by which ONNX makes `out` pixels of `in`: floor(in * scale), also in
// float64, as its inference of shapes computes it.
float onnx_scale(const TappedAxis& axis) {
  const bool is_aligned = axis.coordinates == Coordinates::align_corners;
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  auto scale = static_cast<float>(is_aligned ? out / in : 1 / axis.step);
  while (std::floor(in * scale) < out) scale = std::nextafter(scale, 2 * scale);
  while (std::floor(in * scale) > out) scale = std::nextafter(scale, 0.0f);
  return scale;
}

// Whether ONNX, in float32, picks the pixels that the axis does.
bool picks_alike(const TappedAxis& axis) {
  const float scale = onnx_scale(axis);
  for (int64_t o = 0; o < axis.out; ++o) {
    const auto p = static_cast<float>(o);
    const float picked = axis.mode == ResizeMode::nearest ? std::floor(p / scale)
                                                          : std::round((p + 0.5f) / scale - 0.5f);
    if (static_cast<int64_t>(picked) != axis.tap(o, 0).index) return false;
  }
  return true;
}

// The pixels that the axis picks, by their numbers.
Name picked(OnnxTrace& to, const Name& x, const TappedAxis& axis, int64_t dim) {
  Integers places;
  for (int64_t o = 0; o < axis.out; ++o) places.push_back(axis.tap(o, 0).index);
  return to.graph.add("Gather", {x, to.graph.integers(places)}, {{"axis", dim}});
}

void resize_by_taps(OnnxTrace& to, const View& y, const View& x, const TappedAxis& rows,
                    const TappedAxis& columns) {
  const ResizeMode mode = rows.mode;
  const bool picks = mode == ResizeMode::nearest || mode == ResizeMode::nearest_exact;
  const Name in = image(to, x);
  if (picks && !(picks_alike(rows) && picks_alike(columns)))
    return to.define(y, picked(to, picked(to, in, rows, 2), columns, 3));
  const char* const places = rows.coordinates == Coordinates::align_corners ? "align_corners"
                             : mode == ResizeMode::nearest                  ? "asymmetric"
                                                                            : "half_pixel";
  OnnxGraph::Attributes attributes{{"coordinate_transformation_mode", places}};
  if (picks) {
    attributes.emplace_back("mode", "nearest");
    attributes.emplace_back("nearest_mode",
                            mode == ResizeMode::nearest ? "floor" : "round_prefer_ceil");
  } else {
    attributes.emplace_back("mode", mode == ResizeMode::bilinear ? "linear" : "cubic");
  }
  if (mode == ResizeMode::bicubic) attributes.emplace_back("cubic_coeff_a", -0.75);
  const Name scales = to.graph.numbers({1, 1, onnx_scale(rows), onnx_scale(columns)}, {4});
  to.define(y, to.graph.add("Resize", {in, "", scales}, attributes));
}

}  // namespace

OnnxTrace::Name OnnxTrace::activated(const Name& x, Activation activation) {
  return with_formula(activation, Activated{*this, x});
}

bool add_arithmetic(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::add>([&](const View& y, const View& a, const View& b) {
    to.define(y, to.sum(to.in(a), to.in(b)));
  }) || call.is<cpu::add_relu>([&](const View& y, const View& a, const View& b) {
    to.define(y, to.activated(to.sum(to.in(a), to.in(b)), Activation::relu));
  }) || call.is<cpu::multiply>([&](const GradTarget& y, const View& a, const View& b) {
    to.define(y, to.multiply(to.in(a), to.in(b)));
  }) || call.is<cpu::scale>([&](const GradTarget& y, const View& x, double factor) {
    to.define(y, factor == 1 ? to.in(x) : to.multiply(to.in(x), factor));
  }) || call.is<cpu::scale_by>([&](const GradTarget& y, const View& x, const View& factor) {
    to.define(y, to.multiply(to.in(x), to.in(factor)));
  }) ||
         call.is<cpu::scale_add>(
             [&](const View& y, const View& x, const View& gamma, const View& a) {
               to.define(y, to.sum(to.in(x), to.multiply(to.in(gamma), to.in(a))));
             }) ||
         call.is<cpu::swiglu>([&](const View& y, const View& gate, const View& up) {
           to.define(y, to.multiply(to.silu(to.in(gate)), to.in(up)));
         }) ||
         call.is<cpu::map>([&](const View& y, const View& x, const formula::AnyPointwise& f) {
           const Name in = to.in(x);
           to.define(y, std::visit(Activated{to, in}, f));
         }) ||
         call.is<cpu::copy_columns>(
             [&](const GradTarget& y, const Columns& at, const View& from, const Columns&,
                 int64_t rows, int64_t width) { join(to, y.grad, at, from, rows, width); });
}

bool add_product(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::linear_forward>([&](const View& y, const View& x, const View& w,
                                          const View& b, Activation activation, Transpose w_op,
                                          const View&) {
    to.define(y, to.activated(linear(to, x, w, b, w_op), activation));
  }) ||
         call.is<cpu::add_linear_forward>(
             [&](const View& y, const View& a, const View& x, const View& w, const View& b,
                 Transpose w_op,
                 const View&) { to.define(y, to.sum(to.in(a), linear(to, x, w, b, w_op))); }) ||
         call.is<cpu::matmul>([&](const GradTarget& c, const View& a, const View& b, Transpose a_op,
                                  Transpose b_op,
                                  const View&) { product(to, c, a, b, a_op, b_op); }) ||
         call.is<cpu::conv_gather>(
             [&](const GradTarget& y, const View& x, const ConvWeights& w, const View& b,
                 Activation activation, const ConvGeometry& g,
                 const View&) { convolve(to, y, x, w.w, b, activation, g); }) ||
         call.is<cpu::conv_scatter>([&](const GradTarget& y, const View& x, const ConvWeights& w,
                                        const View& b, const ConvGeometry& g, const View&) {
           convolve_transposed(to, y, x, w.w, b, g);
         }) ||
         // The results of these kernels depend only on weights, so they become constants.
         call.is<cpu::pack_weights>([](const auto&...) {}) ||
         call.is<cpu::spectral_normalize>([](const auto&...) {});
}

bool add_norm(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::group_moments>([&](const View&, const View& rstd, Spread, const View&,
                                         const Grouping&, double eps, const auto&...) {
    to.moments[rstd.data] = {eps, {}, {}};
  }) ||
         call.is<cpu::given_moments>(
             [&](const View&, const View& rstd, const View& mean, const View& var, double eps) {
               to.moments[rstd.data] = {eps, mean, var};
             }) ||
         call.is<cpu::normalize>([&](const View& y, const View& x, const Normalizer& by,
                                     const View& gamma, const View& beta, Activation activation) {
           to.define(y, to.activated(normalized(to, x, by, gamma, beta), activation));
         }) ||
         call.is<cpu::norm_forward>([&](const View& y, const Normalizer& by, const View& x,
                                        double eps, const Running&, const AffineMap& map) {
           to.moments[by.rstd.data] = {eps, {}, {}};
           to.define(y, to.activated(normalized(to, x, by, map.gamma, map.beta), map.activation));
         });
}

bool add_of_images(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::max_pool2d>([&](const View& y, const View&, const View& x,
                                      const Pool2dShape& shape, Activation activation) {
    auto attributes = attributes_of(shape, y, x);
    if (shape.dilation != 1)
      attributes.emplace_back("dilations", Integers{shape.dilation.h, shape.dilation.w});
    const Name pooled = to.graph.add("MaxPool", {image(to, x)}, attributes);
    to.define(y, to.activated(pooled, activation));
  }) || call.is<cpu::avg_pool2d>([&](const View& y, const View& x, const Pool2dShape& shape) {
    average(to, y, x, shape);
  }) || call.is<cpu::adaptive_avg_pool2d>([&](const View& y, const View& x) {
    average_adaptively(to, y, x);
  }) || call.is<cpu::global_avg_pool2d>([&](const View& y, const View& x, Channels) {
    to.define(y, to.graph.add("GlobalAveragePool", {to.in(x)}));
  }) || call.is<cpu::copy_shifted>([&](const GradTarget& y, const View& x, const Shift& by) {
    shift(to, y, x, by);
  }) || call.is<cpu::resize_nearest>([&](const View& y, const View& x) { resize(to, y, x); }) ||
         call.is<cpu::make_taps>([](const auto&...) {}) ||
         call.is<cpu::resize>([&](const GradTarget& y, const View& x, const TapTable& rows,
                                  const TapTable& columns) {
           resize_by_taps(to, y.grad, x, rows.axis, columns.axis);
         }) ||
         call.is<cpu::pixel_shuffle>([&](const View& y, const View& x, int64_t factor) {
           to.define(y, to.graph.add("DepthToSpace", {to.in(x)},
                                     {{"blocksize", factor}, {"mode", "CRD"}}));
         });
}

}  // namespace accrue
