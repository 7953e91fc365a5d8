// Attention that passes put together (onnx/reader/passes.h).

#include <algorithm>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Attention: softmax(scale * q k^T + mask) v. Inputs q, k, v, the mask, two forms of k as
// onnx/reader/passes.h says, and factors of the scale.
struct Attention {
  OnnxConversion& c;
  OnnxValue q, k, v;  // k [.., S, D] where k_is_rows, else [.., D, S]
  bool k_is_rows = true;
  double scale = 1;
  OnnxValues factors;  // that are no numbers

  OnnxValue exchanged(const OnnxValue& x) const {
    return c.call("transpose", {x}, {{"dim0", int64_t{-2}}, {"dim1", int64_t{-1}}});
  }
};

// k before it was transposed by way of three dimensions: `rows` [.., S, D], `list` [n, S, D].
bool is_transposed(const OnnxValue& k, const OnnxValue& rows, const OnnxValue& list) {
  Extents expected = rows.sizes.shape;
  if (expected.size() < 2 || list.rank() != 3) return false;
  const auto is_same = [&](size_t from_end) {
    return list.sizes.shape[3 - from_end] == rows.sizes.shape[expected.size() - from_end];
  };
  if (!is_same(1) || !is_same(2)) return false;
  std::swap(expected.back(), expected[expected.size() - 2]);
  return k.sizes.shape == expected;
}

Attention attention_of(OnnxConversion& c) {
  Attention made{c, c[0], c[1], c[2], c.integer("transposed", 0) == 0, c.number("scale", 1), {}};
  if (c.has(4) && is_transposed(c[1], c[4], c[5])) {
    made.k = c[4];
    made.k_is_rows = true;
  }
  const Integers divides = c.integers("divides", {});
  for (size_t i = 6; i < c.inputs(); ++i) {
    const bool is_divisor = divides.at(i - 6) != 0;
    if (const auto number = only_number(c[i])) made.scale *= is_divisor ? 1 / *number : *number;
    else made.factors.push_back(is_divisor ? c.call("reciprocal", {c[i]}) : c[i]);
  }
  return made;
}

// A constant mask by which query t sees the keys s <= t.
bool is_causal(OnnxConversion& c, const std::string& kind, double masked, int64_t T, int64_t S) {
  const OnnxValue& mask = c[3];
  if (!mask.is_constant() || !mask.constant->is_fixed() || T != S) return false;
  const Shape& shape = mask.constant->shape();
  const std::vector<double>& numbers = mask.constant->numbers();
  if (shape.rank() < 2 || shape.numel() != T * S || shape[-1] != S || shape[-2] != T) return false;
  constexpr double never = -1e30;
  if (kind != "add" && masked > never) return false;
  for (int64_t t = 0; t < T; ++t)
    for (int64_t s = 0; s < S; ++s) {
      const double number = numbers[size_t(t * S + s)];
      const bool is_seen = kind == "add"     ? number == 0
                           : kind == "where" ? number != 0
                                             : number == 0;
      if (is_seen != (s <= t) || (kind == "add" && !is_seen && number > never)) return false;
    }
  return true;
}

// Heads [N, H, T, D], as the op takes them: also of three dimensions, with one head.
std::optional<OnnxValue> fast_attention(const Attention& a, bool causal) {
  OnnxConversion& c = a.c;
  const OnnxValue k = a.k_is_rows ? a.k : a.exchanged(a.k);
  OnnxValues heads{a.q, k, a.v};
  const Extents shape = a.q.sizes.shape;
  if (!a.factors.empty() || a.scale <= 0 || (shape.size() != 3 && shape.size() != 4)) return {};
  for (const OnnxValue& each : heads) {
    const Extents& sizes = each.sizes.shape;
    if (each.is_constant() || OnnxConversion::samples_dimension(each) != 0 ||
        sizes.size() != shape.size() || sizes[0] != shape[0] || each.outer != a.q.outer)
      return {};
    if (shape.size() == 4 && sizes[1] != shape[1]) return {};
  }
  if (k.sizes.shape.back() != shape.back() ||
      a.v.sizes.shape[shape.size() - 2] != k.sizes.shape[shape.size() - 2])
    return {};
  if (shape.size() == 3)
    for (OnnxValue& each : heads) {
      Extents sizes = each.sizes.shape;
      sizes.insert(sizes.begin() + 1, Extent(1));
      each = c.reshape(each, sizes);
    }
  OnnxValue y =
      c.call("scaled_dot_product_attention", heads, {{"is_causal", causal}, {"scale", a.scale}});
  if (shape.size() == 4) return y;
  const Extents& sizes = y.sizes.shape;
  return c.reshape(y, {sizes[0], sizes[2], sizes[3]});
}

OnnxValue probabilities(OnnxConversion& c, const OnnxValue& scores, int64_t axis) {
  const int rank = scores.rank(), dim = c.dimension(axis, rank);
  c.check(dim == rank - 1 || c.opset() >= 13,
          "its softmax is along axis {} of {}: expected the "
          "last one",
          axis, to_string(scores.sizes));
  c.keep_apart(scores, {dim});
  return c.call("softmax", {scores}, {{"dim", int64_t{dim}}});
}

Values fused_attention(OnnxConversion& c) {
  const std::string kind = c.text("mask", "none");
  const double masked = c.number("masked", 0);
  const int64_t axis = c.integer("axis", -1);
  const bool clears_nan = c.integer("clears_nan", 0) != 0;
  const Attention a = attention_of(c);
  c.check(a.q.rank() >= 2 && a.k.rank() >= 2 && a.v.rank() >= 2,
          "its products are of {}, {} and {}: expected matrices", to_string(a.q.sizes),
          to_string(a.k.sizes), to_string(a.v.sizes));
  const auto& q = a.q.sizes.shape;
  c.keep_apart(a.q, {a.q.rank() - 2, a.q.rank() - 1});
  c.keep_apart(a.k, {a.k.rank() - 2, a.k.rank() - 1});
  c.keep_apart(a.v, {a.v.rank() - 2, a.v.rank() - 1});
  const bool is_last_axis = axis == -1 || axis == std::ssize(q) - 1;
  const int64_t T = q[q.size() - 2].number;
  const int64_t S = a.v.sizes.shape[a.v.sizes.shape.size() - 2].number;
  const bool causal = kind != "none" && is_causal(c, kind, masked, T, S);
  if (is_last_axis && (kind == "none" || causal))
    if (const auto y = fast_attention(a, causal)) return {*y};
  OnnxValue scaled = times(c, a.q, a.scale);
  OnnxValue scores = c.call("matmul", {scaled, a.k_is_rows ? a.exchanged(a.k) : a.k});
  for (const OnnxValue& factor : a.factors) scores = c.call("mul", {scores, factor});
  if (kind == "add") {
    scores = c.call("add", {scores, number_operand(c, c[3])});
  } else if (kind != "none") {
    const OnnxValue condition = c[3].is_constant() ? number_operand(c, c[3]) : c[3];
    const OnnxValue other = c.constant(masked);
    scores = kind == "where" ? c.call("where", {condition, scores, other})
                             : c.call("where", {condition, other, scores});
  }
  OnnxValue p = probabilities(c, scores, axis);
  if (clears_nan) p = c.call("where", {c.call("is_nan", {p}), c.constant(0), p});
  return {c.call("matmul", {p, a.v})};
}

}  // namespace

void detail::add_onnx_attention_conversions(OnnxConverters& converters) {
  converters.insert({{"accrue.Attention", {fused_attention}}});
}

}  // namespace accrue
