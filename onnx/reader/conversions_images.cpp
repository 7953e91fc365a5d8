// ONNX's operators on images and sequences: pools, resizing.

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Pools

OnnxWindow pool_of(OnnxConversion& c, const OnnxValue& image) {
  const int places = c.rank(0) - 2;
  return window_of(c, image, places, for_both(c, "kernel_shape", places, 1));
}

// Means over windows of an image with `zeros` around it. Where zeros do not count, each mean is
// multiplied by a constant: the window's size by the number of its pixels.
OnnxValue means_of_padded(OnnxConversion& c, const OnnxValue& image, const OnnxWindow& w,
                          bool counts_zeros) {
  OnnxValue y = c.call("avg_pool2d", {padded(c, image, w.before, w.after)},
                       {{"kernel_size", w.kernel}, {"stride", w.strides}});
  if (counts_zeros) return y;
  std::array<std::vector<double>, 2> counts;  // of rows and of columns
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = image.sizes.shape[2 + i].number;
    for (int64_t p = 0; p < y.sizes.shape[2 + i].number; ++p) {
      const int64_t begin = p * w.strides[i] - w.before[i], end = begin + w.kernel[i];
      counts[i].push_back(double(std::min(end, size) - std::max<int64_t>(begin, 0)));
    }
  }
  std::vector<double> factors;
  for (const double rows : counts[0])
    for (const double columns : counts[1]) {
      c.check(rows > 0 && columns > 0, "a window lies in the padding: expected pixels in each");
      factors.push_back(double(w.kernel[0] * w.kernel[1]) / (rows * columns));
    }
  return c.call(
      "mul",
      {y, real_constant(c, factors, Shape{int64_t(counts[0].size()), int64_t(counts[1].size())})});
}

// Whether ceil_mode adds windows.
bool adds_windows(const OnnxWindow& w, const OnnxValue& image) {
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = image.sizes.shape[2 + i].number + w.before[i] + w.after[i];
    if ((size - w.extent(i)) % w.strides[i] != 0) return true;
  }
  return false;
}

Values average_pool_of(OnnxConversion& c) {
  const OnnxValue image = as_image(c, c[0]);
  const OnnxWindow w = pool_of(c, image);
  const bool counts_zeros = c.integer("count_include_pad", 0) != 0;
  const bool is_ceil = c.integer("ceil_mode", 0) != 0 && adds_windows(w, image);
  c.check(w.dilations == Integers{1, 1}, "dilations are {}: expected 1, without gaps",
          to_string(OpValue(w.dilations)));
  const bool has_padding = w.before != Integers{0, 0} || w.after != Integers{0, 0};
  const bool are_small = 2 * w.before[0] <= w.kernel[0] && 2 * w.before[1] <= w.kernel[1];
  c.check(!is_ceil || (w.is_symmetric() && are_small && !(counts_zeros && has_padding)),
          "ceil_mode with count_include_pad, or with pads that differ: expected one of them");
  if (w.is_symmetric() && are_small)
    return {from_image(c,
                       c.call("avg_pool2d", {image},
                              {{"kernel_size", w.kernel},
                               {"stride", w.strides},
                               {"padding", w.before},
                               {"ceil_mode", is_ceil},
                               {"count_include_pad", counts_zeros}}),
                       c.rank(0))};
  return {from_image(c, means_of_padded(c, image, w, counts_zeros), c.rank(0))};
}

// The dimensions behind samples and channels.
std::vector<int> all_places(const OnnxConversion& c) {
  std::vector<int> dims = all_dimensions(c.rank(0));
  c.check(dims.size() > 2, "its input is {}: expected [N, C, ...]", to_string(c[0].sizes));
  dims.erase(dims.begin(), dims.begin() + 2);
  c.keep_apart(c[0], dims);
  return dims;
}

Values global_max_pool_of(OnnxConversion& c) {
  const std::vector<int> dims = all_places(c);
  return {c.call("amax", {c[0]}, {{"dim", as_integers(dims)}, {"keepdim", true}})};
}

// The powers of which p_root() takes the root, when they are added up.
OnnxValue p_power(OnnxConversion& c, const OnnxValue& x, double p) {
  const OnnxValue size = c.call("abs", {x});
  if (p == 1) return size;
  return p == 2 ? c.call("square", {x}) : c.call("pow_scalar", {size}, {{"exponent", p}});
}

Values lp_pool_of(OnnxConversion& c) {
  const OnnxValue image = as_image(c, c[0]);
  const OnnxWindow w = pool_of(c, image);
  const auto p = double(c.integer("p", 2));
  c.check(w.dilations == Integers{1, 1}, "dilations are {}: expected 1, without gaps",
          to_string(OpValue(w.dilations)));
  c.check(c.integer("ceil_mode", 0) == 0 || !adds_windows(w, image), "ceil_mode is 1: expected 0");
  c.check(p >= 1, "p is {}: expected at least 1", p);
  const OnnxValue sums = times(c, means_of_padded(c, p_power(c, image, p), w, true),
                               double(w.kernel[0] * w.kernel[1]));
  return {from_image(c, p_root(c, sums, p), c.rank(0))};
}

Values global_lp_pool_of(OnnxConversion& c) {
  const std::vector<int> dims = all_places(c);
  const auto p = double(c.integer("p", 2));
  const OnnxValue sums =
      c.call("sum", {p_power(c, c[0], p)}, {{"dim", as_integers(dims)}, {"keepdim", true}});
  return {p_root(c, sums, p)};
}

// Resizing. Each axis has a table of taps, as ONNX's reference makes it.

struct Axis {
  int64_t in, out;
  double scale;
};

struct Resizing {
  std::string mode, coordinates, nearest;
  double a = -0.75;
  bool excludes_outside = false;

  // The place of pixel o in the axis.
  double place(const Axis& axis, int64_t o) const {
    const auto p = double(o), in = double(axis.in), out = double(axis.out);
    if (coordinates == "align_corners") return axis.out == 1 ? 0 : p * (in - 1) / (out - 1);
    if (coordinates == "asymmetric") return p / axis.scale;
    if (coordinates == "pytorch_half_pixel" && axis.out == 1) return 0;
    const double half = (p + 0.5) / axis.scale - 0.5;
    if (coordinates != "half_pixel_symmetric") return half;
    const double adjustment = out / (axis.scale * in);
    return in / 2 * (1 - adjustment) + half;
  }

  int64_t nearest_to(const Axis& axis, int64_t o) const {
    // As in float32, in which files are run: halves that are hit up to its rounding are halves.
    const double p = std::round(place(axis, o) * 1e5) / 1e5;
    double picked;
    if (nearest == "floor" || (nearest == "old" && axis.scale >= 1)) {
      picked = std::floor(p);
    } else if (nearest == "ceil" || nearest == "old") {  // as onnxruntime has it
      picked = std::ceil(p);
    } else {
      picked = nearest == "round_prefer_ceil" ? std::floor(p + 0.5) : std::ceil(p - 0.5);
    }
    return std::clamp(int64_t(picked), int64_t{0}, axis.in - 1);
  }

  // How much the tap at distance d counts.
  double weight(double d) const {
    d = std::abs(d);
    if (mode == "linear") return std::max(0.0, 1 - d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  // [out, in]: the part of each pixel in each result
  std::vector<double> table(const Axis& axis) const {
    const int64_t reach = mode == "linear" ? 1 : 2;
    std::vector<double> parts(size_t(axis.in * axis.out), 0.0);
    for (int64_t o = 0; o < axis.out; ++o) {
      const double p = place(axis, o);
      const auto first = int64_t(std::floor(p)) - reach + 1;
      double total = 0;
      for (int64_t i = first; i < first + 2 * reach; ++i) {
        if (excludes_outside && (i < 0 || i >= axis.in)) continue;
        const double part = weight(p - double(i));
        parts[size_t(o * axis.in + std::clamp(i, int64_t{0}, axis.in - 1))] += part;
        total += part;
      }
      for (int64_t i = 0; excludes_outside && i < axis.in; ++i)
        parts[size_t(o * axis.in + i)] /= total;
    }
    return parts;
  }
};

OnnxValue nearest_along(OnnxConversion& c, const OnnxValue& x, int dim, const Axis& axis,
                        const Resizing& by) {
  std::vector<double> places;
  bool is_identity = axis.in == axis.out;
  for (int64_t o = 0; o < axis.out; ++o) {
    places.push_back(double(by.nearest_to(axis, o)));
    is_identity &= places.back() == double(o);
  }
  if (is_identity) return x;
  return c.call("index_select", {x, c.constant(places, Shape{axis.out}, OnnxType::i64)},
                {{"dim", int64_t{dim}}});
}

// Whether each pixel is repeated, by the same factor in both axes.
bool repeats(const std::array<Axis, 2>& axes, const Resizing& by) {
  const int64_t factor = axes[0].out / axes[0].in;
  for (const Axis& axis : axes) {
    if (axis.out != factor * axis.in) return false;
    for (int64_t o = 0; o < axis.out; ++o)
      if (by.nearest_to(axis, o) != o / factor) return false;
  }
  return true;
}

// Whether a scale is the ratio of the sizes, by which resize() goes.
bool is_ratio(const Axis& axis) {
  return std::abs(axis.scale * double(axis.in) - double(axis.out)) < 1e-4;
}

OnnxValue resized(OnnxConversion& c, const OnnxValue& image, const std::array<Axis, 2>& axes,
                  const Resizing& by) {
  const bool is_aligned = by.coordinates == "align_corners";
  c.check(!is_aligned || (is_ratio(axes[0]) && is_ratio(axes[1])),
          "align_corners with a scale that gives no whole number of places: expected sizes");
  if (by.mode == "nearest") {
    if (repeats(axes, by))
      return c.call("interpolate", {image}, {{"scale_factor", double(axes[0].out / axes[0].in)}});
    return nearest_along(c, nearest_along(c, image, 2, axes[0], by), 3, axes[1], by);
  }
  const bool is_half = by.coordinates == "half_pixel" || (by.coordinates == "pytorch_half_pixel" &&
                                                          axes[0].out > 1 && axes[1].out > 1);
  const bool is_own = (is_aligned || (is_half && is_ratio(axes[0]) && is_ratio(axes[1]))) &&
                      !by.excludes_outside && (by.mode == "linear" || by.a == -0.75);
  if (is_own)
    return c.call("interpolate", {image},
                  {{"size", Integers{axes[0].out, axes[1].out}},
                   {"mode", std::string(by.mode == "linear" ? "bilinear" : "bicubic")},
                   {"align_corners", is_aligned}});
  OnnxValue y = image;
  if (axes[0].in != axes[0].out || !is_ratio(axes[0]))
    y = c.call("matmul", {real_constant(c, by.table(axes[0]), Shape{axes[0].out, axes[0].in}), y});
  if (axes[1].in != axes[1].out || !is_ratio(axes[1])) {
    const OnnxValue rows = real_constant(c, by.table(axes[1]), Shape{axes[1].out, axes[1].in});
    y = c.call("matmul",
               {y, c.call("transpose", {rows}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}})});
  }
  return y;
}

// The axes' scales and sizes, of which one is given. The axes are rows and columns.
std::array<Axis, 2> axes_of(OnnxConversion& c, const OnnxValue& image, std::vector<double> scales,
                            const Extents& sizes, const Integers& given_axes) {
  const int rank = c.rank(0);
  std::array<Axis, 2> axes{Axis{image.sizes.shape[2].number, image.sizes.shape[2].number, 1},
                           Axis{image.sizes.shape[3].number, image.sizes.shape[3].number, 1}};
  const size_t many = scales.empty() ? sizes.size() : scales.size();
  c.check(many == given_axes.size(),
          "it has {} scales or sizes for {} dimensions: expected one for "
          "each",
          many, given_axes.size());
  for (size_t i = 0; i < many; ++i) {
    const int dim = c.dimension(given_axes[i], rank);
    const Extent& size = c.sizes(0)[size_t(dim)];
    if (dim < 2) {
      c.check(scales.empty() ? sizes[i] == size : scales[i] == 1,
              "it resizes dimension {} of {}: expected rows and columns", dim,
              to_string(c[0].sizes));
      continue;
    }
    Axis& axis = axes[size_t(dim - (rank - 2))];
    if (!scales.empty()) {
      axis.scale = scales[i];
      c.check(axis.scale > 0 && axis.scale < 0x1p20, "a scale is {}: expected one above 0",
              axis.scale);
      axis.out = int64_t(std::floor(double(axis.in) * scales[i] + 1e-6));
    } else {
      c.check(!sizes[i].per_sample, "a size grows with the samples: expected a number");
      axis.out = sizes[i].number;
      axis.scale = double(axis.out) / double(axis.in);
    }
    c.check(axis.out >= 1, "it leaves no places of {}: expected some", axis.in);
    c.check(axis.out < 1 << 20, "it makes {} places of {}: expected fewer than 2^20", axis.out,
            axis.in);
  }
  return axes;
}

Values resize_of(OnnxConversion& c) {
  const OnnxValue image = as_image(c, c[0]);
  Resizing by;
  by.mode = c.text("mode", "nearest");
  if (by.mode == "bilinear") by.mode = "linear";  // before opset 9
  c.check(by.mode == "nearest" || by.mode == "linear" || by.mode == "cubic",
          "mode is '{}': expected nearest, linear or cubic", by.mode);
  const bool is_old = c.node.op == "Upsample" || c.opset() < 11;
  by.coordinates = is_old ? "asymmetric" : c.text("coordinate_transformation_mode", "half_pixel");
  by.nearest = is_old ? "old" : c.text("nearest_mode", "round_prefer_floor");
  constexpr std::array roundings{"old", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
  c.check(std::ranges::find(roundings, by.nearest) != roundings.end(),
          "nearest_mode is '{}': expected floor, ceil, round_prefer_floor or round_prefer_ceil",
          by.nearest);
  by.a = meant_by(c.number("cubic_coeff_a", -0.75));
  by.excludes_outside = c.integer("exclude_outside", 0) != 0;
  c.pass_over("extrapolation_value");  // of tf_crop_and_resize alone
  constexpr std::array known{"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                             "half_pixel_symmetric"};
  c.check(std::ranges::find(known, by.coordinates) != known.end(),
          "coordinate_transformation_mode is '{}': expected half_pixel, pytorch_half_pixel, "
          "half_pixel_symmetric, align_corners or asymmetric",
          by.coordinates);
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  c.check(policy == "stretch", "keep_aspect_ratio_policy is '{}': expected stretch", policy);
  std::vector<double> scales;
  Extents sizes;
  if (is_old) {
    scales = c.numbers(1);
  } else {
    if (c.has(2)) scales = c.numbers(2);
    if (scales.empty() && c.has(3)) sizes = c.extents(3);
    if (!c.has("axes")) sizes = c.with_samples(sizes);
  }
  c.check(!scales.empty() || !sizes.empty(),
          "it has neither scales nor sizes: expected one of them");
  for (double& scale : scales) scale = meant_by(scale);
  const Integers all = as_integers(all_dimensions(c.rank(0)));
  const auto axes = axes_of(c, image, scales, sizes, c.integers("axes", all));
  const bool shrinks = axes[0].scale < 1 || axes[1].scale < 1;
  c.check(c.integer("antialias", 0) == 0 || !shrinks || by.mode == "nearest",
          "antialias is 1: expected 0, or an average pool before it");
  return {from_image(c, resized(c, image, axes, by), c.rank(0))};
}

}  // namespace

void detail::add_onnx_image_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"AveragePool", {average_pool_of}},
      {"GlobalMaxPool", {global_max_pool_of}},
      {"LpPool", {lp_pool_of}},
      {"GlobalLpPool", {global_lp_pool_of}},
      {"Resize", {resize_of}},
      {"Upsample", {resize_of}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
