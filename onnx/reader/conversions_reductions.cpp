// ONNX's reductions, softmax and norms of rows.

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Dimensions and whether they are kept. Axes are an attribute, and since opset 18, for ReduceSum
// since 13, an input.
struct Reduced {
  OnnxValue x;
  std::vector<int> dims;
  bool keeps;
  bool is_nothing = false;  // no axes, and noop_with_empty_axes

  OnnxValue by(OnnxConversion& c, std::string_view op, const OnnxValue& value) const {
    return c.call(op, {value}, {{"dim", as_integers(dims)}, {"keepdim", keeps}});
  }
  OnnxValue by(OnnxConversion& c, std::string_view op) const { return by(c, op, x); }
  OnnxValue kept(OnnxConversion& c, std::string_view op, const OnnxValue& value) const {
    return c.call(op, {value}, {{"dim", as_integers(dims)}, {"keepdim", true}});
  }
};

Reduced reduced(OnnxConversion& c) {
  Reduced made{number_operand(c, c[0]), {}, c.integer("keepdims", 1) != 0};
  c.check(is_floating(c[0].type), "it reduces integers of the data: expected floating numbers");
  const bool is_noop = c.integer("noop_with_empty_axes", 0) != 0;
  const Integers axes = c.integers_of("axes", 1).value_or(Integers{});
  for (const int64_t axis : axes) made.dims.push_back(c.dimension(axis, c.rank(0)));
  made.is_nothing = axes.empty() && is_noop;
  if (axes.empty()) made.dims = all_dimensions(c.rank(0));
  if (!made.is_nothing) c.keep_apart(made.x, made.dims);
  return made;
}

template <const char* const& op>
Values reduce_by(OnnxConversion& c) {
  const Reduced r = reduced(c);
  return {r.is_nothing || r.dims.empty() ? r.x : r.by(c, op)};
}
constexpr const char *sum = "sum", *mean = "mean", *amax = "amax", *amin = "amin";

OnnxValue sum_of(OnnxConversion& c, const Reduced& r, const OnnxValue& x) {
  return r.is_nothing || r.dims.empty() ? x : r.by(c, "sum", x);
}

Values reduce_l1(OnnxConversion& c) {
  const Reduced r = reduced(c);
  return {sum_of(c, r, c.call("abs", {r.x}))};
}

Values reduce_l2(OnnxConversion& c) {
  const Reduced r = reduced(c);
  return {p_root(c, sum_of(c, r, c.call("square", {r.x})))};
}
Values reduce_sum_square(OnnxConversion& c) {
  const Reduced r = reduced(c);
  return {sum_of(c, r, c.call("square", {r.x}))};
}
Values reduce_log_sum(OnnxConversion& c) {
  const Reduced r = reduced(c);
  return {c.call("log", {sum_of(c, r, r.x)})};
}
// m + log(sum(exp(x - m))) with the largest number m
Values reduce_log_sum_exp(OnnxConversion& c) {
  const Reduced r = reduced(c);
  if (r.is_nothing || r.dims.empty()) return {r.x};
  const OnnxValue most = r.kept(c, "amax", r.x);
  const OnnxValue total = r.by(c, "sum", c.call("exp", {c.call("sub", {r.x, most})}));
  const OnnxValue other = r.keeps ? most : c.reshape(most, total.sizes.shape);
  return {c.call("add", {c.call("log", {total}), other})};
}

// The first place of the extreme; with select_last_index the last one.
template <const char* const& op>
Values place_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", 0);
  const bool keeps = c.integer("keepdims", 1) != 0;
  c.check(c.integer("select_last_index", 0) == 0,
          "select_last_index is 1: expected 0, the first of equal numbers");
  c.check(is_floating(c[0].type), "its input is integers of the data: expected floating numbers");
  c.keep_apart(c[0], {dim});
  const OnnxValue y = c.call(op, {c[0]}, {{"dim", int64_t{dim}}, {"keepdim", keeps}});
  return {OnnxConversion::typed(y, OnnxType::i64)};
}
constexpr const char *argmax = "argmax", *argmin = "argmin";

// With `reverse` from the end on, with `exclusive` without the element itself.
Values cumsum_of(OnnxConversion& c) {
  const int dim = c.dimension(int64_t(c.number(1)), c.rank(0));
  const bool is_exclusive = c.integer("exclusive", 0) != 0;
  const bool is_reversed = c.integer("reverse", 0) != 0;
  c.check(is_floating(c[0].type), "it adds up integers of the data: expected floating numbers");
  c.keep_apart(c[0], {dim});
  const Graph::Attributes along{{"dims", Integers{dim}}};
  OnnxValue y = is_reversed ? c.call("flip", {c[0]}, along) : c[0];
  if (is_exclusive) {
    // One 0 in front, and without the last.
    Integers pads(size_t(2 * (c.rank(0) - dim)), 0);
    pads[pads.size() - 2] = 1;
    pads.back() = -1;
    y = c.call("pad", {y}, {{"pad", pads}});
  }
  y = c.call("cumsum", {y}, {{"dim", int64_t{dim}}});
  return {is_reversed ? c.call("flip", {y}, along) : y};
}

// Before opset 13 the dimensions from `axis` on are one.
OnnxValue along_axis(OnnxConversion& c, const char* op) {
  const bool flattens = c.opset() < 13;
  const int rank = c.rank(0), dim = c.dimension("axis", flattens ? 1 : -1);
  const OnnxValue& x = c[0];
  if (!flattens || dim == rank - 1) {
    c.keep_apart(x, {dim});
    return c.call(op, {x}, {{"dim", int64_t{dim}}});
  }
  std::vector<int> dims = all_dimensions(rank);
  dims.erase(dims.begin(), dims.begin() + dim);
  c.keep_apart(x, dims);
  const Extents& sizes = x.sizes.shape;
  const auto at = size_t(dim);
  const OnnxValue rows =
      c.reshape(x, {extent_product(c, sizes, 0, at), extent_product(c, sizes, at, sizes.size())});
  return c.reshape(c.call(op, {rows}, {{"dim", int64_t{1}}}), sizes);
}
Values softmax_of(OnnxConversion& c) { return {along_axis(c, "softmax")}; }
Values log_softmax_of(OnnxConversion& c) { return {along_axis(c, "log_softmax")}; }

// x / norm(x) along an axis, and 0 for 0
Values lp_normalization_of(OnnxConversion& c) {
  const int dim = c.dimension("axis", -1);
  const int64_t p = c.integer("p", 2);
  c.check(p == 1 || p == 2, "p is {}: expected 1 or 2", p);
  c.keep_apart(c[0], {dim});
  const Reduced r{c[0], {dim}, true};
  const OnnxValue norm = p == 1 ? r.by(c, "sum", c.call("abs", {c[0]}))
                                : p_root(c, r.by(c, "sum", c.call("square", {c[0]})));
  const OnnxValue is_zero = c.call("equal", {norm, c.constant(0)});
  return {c.call("div", {c[0], c.call("add", {norm, is_zero})})};
}

// (x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9), by default over samples and places
Values mean_variance_of(OnnxConversion& c) {
  std::vector<int> dims;
  for (const int64_t axis : c.integers("axes", {0, 2, 3}))
    dims.push_back(c.dimension(axis, c.rank(0)));
  c.keep_apart(c[0], dims);
  const Reduced r{c[0], dims, true};
  const OnnxValue centred = c.call("sub", {c[0], r.by(c, "mean")});
  const OnnxValue variance = r.by(c, "mean", c.call("square", {centred}));
  return {c.call("div", {centred, accrue::sum_of(c, p_root(c, variance), 1e-9)})};
}

// Norms of rows

// The dimensions from `axis` on as one.
struct Rows {
  OnnxValue x;
  Extents shape;  // x's own
  int64_t size;
  bool is_flat;  // true if they are more than one

  OnnxValue back(OnnxConversion& c, const OnnxValue& y) const {
    return is_flat ? c.reshape(y, shape) : y;
  }
};

Rows rows_from(OnnxConversion& c, const OnnxValue& x, int axis) {
  std::vector<int> dims = all_dimensions(x.rank());
  dims.erase(dims.begin(), dims.begin() + axis);
  c.keep_apart(x, dims);
  Extents shape = x.sizes.shape;
  const int64_t size = extent_product(c, shape, size_t(axis), shape.size()).number;
  Rows made{x, shape, size, std::ssize(dims) > 1};
  if (made.is_flat) {
    shape.resize(size_t(axis));
    shape.emplace_back(size);
    made.x = c.reshape(x, shape);
  }
  return made;
}

// A weight of rows. Where it is broadcast in the file, it cannot be the norm's own.
bool fits(const OnnxValue& weight, const Rows& rows) {
  int64_t size = 1;
  for (const Extent& each : weight.sizes.shape) {
    if (each.per_sample) return false;
    size *= each.number;
  }
  return size == rows.size;
}

void refuse_other_results(const OnnxConversion& c) {
  for (size_t i = 1; i < c.outputs(); ++i)
    c.check(!c.needs(i), "result {} of it is used: expected the first alone", i);
}

Values norm_of_rows(OnnxConversion& c, const char* op) {
  refuse_other_results(c);
  c.pass_over("stash_type");
  const double eps = meant_by(c.number("epsilon", 1e-5));
  const Rows rows = rows_from(c, c[0], c.dimension("axis", -1));
  const bool has_bias = c.has(2);
  const bool are_own = fits(c[1], rows) && (!has_bias || fits(c[2], rows));
  const auto flat = [&](const OnnxValue& weight) {
    return weight.rank() == 1 ? weight : c.reshape(weight, {rows.size});
  };
  OnnxValues operands{rows.x};
  if (are_own) {
    operands.push_back(flat(c[1]));
    if (has_bias) operands.push_back(flat(c[2]));
  }
  OnnxValue y =
      rows.back(c, c.call(op, operands, {{"normalized_shape", Integers{rows.size}}, {"eps", eps}}));
  if (are_own) return {y};
  y = c.call("mul", {y, c[1]});
  return {has_bias ? c.call("add", {y, c[2]}) : y};
}
Values layer_norm_of(OnnxConversion& c) { return norm_of_rows(c, "layer_norm"); }
Values rms_norm_of(OnnxConversion& c) { return norm_of_rows(c, "rms_norm"); }

// Norms of channels: of each one, or of groups of them.

// x [N, C, ...] as [N, C, 1, places], which norms of channels take
OnnxValue channels(OnnxConversion& c, const OnnxValue& x) {
  const Extents& shape = x.sizes.shape;
  c.check(shape.size() >= 3, "its input is {}: expected [N, C, ...]", to_string(x.sizes));
  std::vector<int> dims = all_dimensions(x.rank());
  dims.erase(dims.begin());
  c.keep_apart(x, dims);
  if (shape.size() == 4) return x;
  return c.reshape(x, {shape[0], shape[1], 1, extent_product(c, shape, 2, shape.size())});
}

Values instance_norm_of(OnnxConversion& c) {
  const double eps = meant_by(c.number("epsilon", 1e-5));
  const OnnxValue y = c.call("instance_norm", {channels(c, c[0]), c[1], c[2]}, {{"eps", eps}});
  return {c.rank(0) == 4 ? y : c.reshape(y, c.sizes(0))};
}

// Before opset 21 scale and bias have a number for each group, since then for each channel.
Values group_norm_of(OnnxConversion& c) {
  const int64_t groups = c.integer("num_groups", 0);
  const double eps = meant_by(c.number("epsilon", 1e-5));
  c.pass_over("stash_type");
  const int64_t C = c.size(0, 1), given = c.size(1, 0);
  c.check(groups >= 1 && C % groups == 0, "num_groups is {} for {} channels: expected a divisor",
          groups, C);
  const auto per_channel = [&](const OnnxValue& weight) {
    if (given == C) return weight;
    c.check(given == groups, "its scale has {} numbers: expected {} or {}", given, groups, C);
    const int64_t each = C / groups;
    const OnnxValue column = c.reshape(weight, {groups, 1});
    const OnnxValue grown = c.call("expand", {column}, {{"size", Extents{groups, each}}});
    return c.reshape(grown, {C});
  };
  const OnnxValue y =
      c.call("group_norm", {channels(c, c[0]), per_channel(c[1]), per_channel(c[2])},
             {{"num_groups", groups}, {"eps", eps}});
  return {c.rank(0) == 4 ? y : c.reshape(y, c.sizes(0))};
}

// y = x / (bias + alpha / size * s)^beta, where s is the sum of x^2 over `size` channels around
// each, more of them behind where the number is even
Values lrn_of(OnnxConversion& c) {
  const int64_t size = c.integer("size", 0);
  const double alpha = meant_by(c.number("alpha", 1e-4)), beta = meant_by(c.number("beta", 0.75));
  const double bias = meant_by(c.number("bias", 1));
  c.check(size >= 1, "size is {}: expected at least 1", size);
  c.check(c.rank(0) >= 2, "its input is {}: expected [N, C, ...]", to_string(c[0].sizes));
  c.keep_apart(c[0], {1});
  const Extents& shape = c.sizes(0);
  const int64_t C = c.size(0, 1), before = (size - 1) / 2, after = size - 1 - before;
  // A mean over windows of rows, with zeros around, of images [N, 1, C, places].
  const OnnxValue squares = c.reshape(c.call("square", {c[0]}),
                                      {shape[0], 1, C, extent_product(c, shape, 2, shape.size())});
  const OnnxValue padded = c.call("pad", {squares}, {{"pad", Integers{0, 0, before, after}}});
  const OnnxValue means = c.call("avg_pool2d", {padded},
                                 {{"kernel_size", Integers{size, 1}}, {"stride", Integers{1, 1}}});
  const OnnxValue divisor =
      c.call("pow_scalar", {accrue::sum_of(c, times(c, means, alpha), bias)}, {{"exponent", beta}});
  return {c.call("div", {c[0], c.reshape(divisor, shape)})};
}

}  // namespace

void detail::add_onnx_reduction_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"ReduceSum", {reduce_by<sum>}},
      {"ReduceMean", {reduce_by<mean>}},
      {"ReduceMax", {reduce_by<amax>}},
      {"ReduceMin", {reduce_by<amin>}},
      {"ReduceL1", {reduce_l1}},
      {"ReduceL2", {reduce_l2}},
      {"ReduceSumSquare", {reduce_sum_square}},
      {"ReduceLogSum", {reduce_log_sum}},
      {"ReduceLogSumExp", {reduce_log_sum_exp}},
      {"ArgMax", {place_of<argmax>}},
      {"ArgMin", {place_of<argmin>}},
      {"CumSum", {cumsum_of}},
      {"Softmax", {softmax_of}},
      {"LogSoftmax", {log_softmax_of}},
      {"LpNormalization", {lp_normalization_of}},
      {"MeanVarianceNormalization", {mean_variance_of}},
      {"LayerNormalization", {layer_norm_of, {1, 2}}},
      {"RMSNormalization", {rms_norm_of, {1}}},
      {"InstanceNormalization", {instance_norm_of, {1, 2}}},
      {"GroupNormalization", {group_norm_of, {1, 2}}},
      {"LRN", {lrn_of}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
