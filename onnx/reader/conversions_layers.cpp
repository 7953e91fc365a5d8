// Dropout, products, and nodes that passes put together (onnx/reader/passes.h) but attention.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Noise by the sample

// Dropout wherever the samples lie: the kernel draws for rows, of which each belongs to a sample.
OnnxValue dropped(OnnxConversion& c, const OnnxValue& x, double p) {
  const auto place = OnnxConversion::samples_dimension(x);
  c.check(place.has_value(),
          "what it drops is {}, the same for all samples: expected a value for each sample",
          to_string(x.sizes));
  if (p <= 0) return x;
  c.check(p < 1, "it drops everything: expected a probability below 1");
  const Graph::Attributes attributes{{"p", p}};
  if (*place == 0 && x.outer == 1) return c.call("dropout", {x}, attributes);
  const Extents& shape = x.sizes.shape;
  const auto at = size_t(*place);
  Extents split(shape.begin(), shape.begin() + *place);
  split.emplace_back(x.outer);
  split.push_back(Extent::of_samples());
  split.emplace_back(shape[at].number / x.outer);
  split.insert(split.end(), shape.begin() + *place + 1, shape.end());
  const int rank = int(split.size());
  Integers order = as_integers(all_dimensions(rank)), back(size_t(rank), 0);
  order.erase(order.begin() + *place + 1);
  order.insert(order.begin(), *place + 1);
  for (int i = 0; i < rank; ++i) back[size_t(order[size_t(i)])] = i;
  OnnxValue y = c.call("permute", {c.reshape(x, split)}, {{"dims", order}});
  y = c.call("permute", {c.call("dropout", {y}, attributes)}, {{"dims", back}});
  return c.reshape(y, shape);
}

// Before opset 12 a file does not say whether it is for training.
Values dropout_of(OnnxConversion& c) {
  c.check(!c.needs(1), "its mask is used: expected its first result alone");
  c.pass_over("seed");
  double p = 0.5;
  bool is_training = true;
  if (c.opset() < 12) {
    p = c.number("ratio", 0.5);
    is_training = c.integer("is_test", 0) == 0;
  } else {
    if (c.has(1)) p = c.number(1);
    is_training = c.has(2) && c.number(2) != 0;
  }
  p = meant_by(p);
  if (!is_training && p != 0)
    c.note(
        "Dropout does nothing, because the file was exported for inference. Export it for training "
        "(torch.onnx.export(..., training=TrainingMode.TRAINING)) to drop out");
  if (!is_training || p == 0) return {c[0]};
  return {OnnxConversion::typed(dropped(c, c[0], p), c[0].type)};
}

// x times noise that is 0 with probability p, and else 1 / (1 - p). The second input has the
// noise's sizes, or the third holds them.
Values noise_of(OnnxConversion& c) {
  const double p = c.number("p", 0);
  const OnnxValue& x = c[0];
  Extents shape = c.has(2) ? c.extents(2) : c.sizes(1);
  shape = c.with_samples(shape);
  const Extents& sizes = x.sizes.shape;
  const auto samples = OnnxConversion::samples_dimension(x);
  c.check(std::ranges::find(shape, true, &Extent::per_sample) != shape.end(),
          "its noise {} is the same for all samples, so that the result would depend on the split "
          "into micro-batches: expected noise for each sample",
          to_string(OpValue(shape)));
  if (shape == sizes) return {dropped(c, x, p)};
  const bool is_row = samples == 0 && x.outer == 1 && shape.size() == sizes.size() &&
                      shape[0] == sizes[0] && shape[0] == Extent::of_samples() &&
                      std::all_of(shape.begin() + 1, shape.end(),
                                  [](const Extent& each) { return each == Extent(1); });
  if (is_row) return {c.call("stochastic_depth", {x}, {{"p", p}})};
  // Noise of its own sizes, broadcast.
  const Integers one(shape.size(), 1);
  OnnxValue ones = c.call("expand", {c.constant({1}, Shape(one))}, {{"size", shape}});
  ones.outer = x.outer;
  return {c.call("mul", {x, dropped(c, ones, p)})};
}

// Products

// Operands of one dimension are a row and a column.
Values matmul_of(OnnxConversion& c) {
  const OnnxValue a = number_operand(c, c[0]), b = number_operand(c, c[1]);
  c.check(a.rank() >= 1 && b.rank() >= 1, "it multiplies {} by {}: expected matrices",
          to_string(a.sizes), to_string(b.sizes));
  c.keep_apart(a, {a.rank() - 1});
  c.keep_apart(b, {std::max(b.rank() - 2, 0)});
  return {c.call("matmul", {a, b})};
}

Values fused_linear(OnnxConversion& c) {
  const bool is_turned = c.integer("turned", 0) != 0;
  const OnnxValue x = number_operand(c, c[0]);
  c.check(x.rank() >= 1, "it multiplies {}: expected matrices", to_string(x.sizes));
  c.keep_apart(x, {x.rank() - 1});
  const auto other = [&] {
    return c.call("transpose", {c[1]}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}});
  };
  if (x.rank() >= 2) return {c.call("linear", {x, is_turned ? c[1] : other(), c[2]})};
  return {c.call("add", {c.call("matmul", {x, is_turned ? other() : c[1]}), c[2]})};
}

// Einsum, as a product of matrices after dimensions are put in order

struct Labelled {
  OnnxValue value;
  std::string labels;
};

bool is_in(const std::string& labels, char label) { return labels.find(label) != labels.npos; }

OnnxValue ordered(OnnxConversion& c, const Labelled& x, const std::string& labels) {
  Integers order;
  for (const char label : labels) order.push_back(int64_t(x.labels.find(label)));
  if (std::ranges::is_sorted(order)) return x.value;
  return c.call("permute", {x.value}, {{"dims", order}});
}

// Sums over the labels that nothing else has.
Labelled summed(OnnxConversion& c, Labelled x, const std::string& others) {
  std::vector<int> dims;
  std::string left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (is_in(others, x.labels[i])) left += x.labels[i];
    else dims.push_back(int(i));
  }
  if (dims.empty()) return x;
  c.keep_apart(x.value, dims);
  return {c.call("sum", {x.value}, {{"dim", as_integers(dims)}, {"keepdim", false}}), left};
}

Extents sizes_of(const Labelled& x, const std::string& labels) {
  Extents sizes;
  for (const char label : labels) sizes.push_back(x.value.sizes.shape[x.labels.find(label)]);
  return sizes;
}

// The product of a and b; `wanted` has the labels that are needed after it.
Labelled multiplied(OnnxConversion& c, Labelled a, Labelled b, const std::string& wanted) {
  a = summed(c, a, b.labels + wanted);
  b = summed(c, b, a.labels + wanted);
  std::string both, ours, theirs, inner;
  for (const char label : a.labels)
    (is_in(b.labels, label) ? is_in(wanted, label) ? both : inner : ours) += label;
  for (const char label : b.labels)
    if (!is_in(a.labels, label)) theirs += label;
  std::vector<int> dims;
  for (const char label : inner) dims.push_back(int(a.labels.find(label)));
  c.keep_apart(a.value, dims);
  const auto matrix = [&](const Labelled& x, const std::string& rows, const std::string& columns) {
    Extents shape = sizes_of(x, both);
    const Extents first = sizes_of(x, rows), last = sizes_of(x, columns);
    shape.push_back(extent_product(c, first, 0, first.size()));
    shape.push_back(extent_product(c, last, 0, last.size()));
    return c.reshape(ordered(c, x, both + rows + columns), shape);
  };
  const OnnxValue y = c.call("matmul", {matrix(a, ours, inner), matrix(b, inner, theirs)});
  Extents shape = sizes_of(a, both + ours);
  const Extents more = sizes_of(b, theirs);
  shape.insert(shape.end(), more.begin(), more.end());
  return {c.reshape(y, shape), both + ours + theirs};
}

// Labels of each operand and of the result; an ellipsis becomes capital letters from Z down.
std::vector<std::string> labels_of(const OnnxConversion& c, std::string equation) {
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string inputs = equation.substr(0, arrow);
  std::vector<std::string> all(1);
  for (const char each : inputs) {
    if (each == ',') all.emplace_back();
    else all.back() += each;
  }
  c.check(all.size() == c.inputs(), "its equation '{}' has {} operands: expected {}", equation,
          all.size(), c.inputs());
  std::string hidden;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t dots = all[i].find("...");
    if (dots == std::string::npos) continue;
    const int64_t count = c.rank(i) - (std::ssize(all[i]) - 3);
    std::string own;
    for (int64_t k = count; k-- > 0;) own += char('Z' - k);
    c.check(hidden.empty() || hidden == own,
            "its operands have ellipses of several sizes: expected one size");
    hidden = own;
    all[i].replace(dots, 3, own);
  }
  std::string out;
  if (arrow != std::string::npos) {
    out = equation.substr(arrow + 2);
    if (const size_t dots = out.find("..."); dots != std::string::npos)
      out.replace(dots, 3, hidden);
  } else {
    out = hidden;
    std::string joined = fmt::format("{}", fmt::join(all, ""));
    std::ranges::sort(joined);
    for (const char each : joined)
      if (std::ranges::count(joined, each) == 1 && !is_in(hidden, each)) out += each;
  }
  all.push_back(out);
  return all;
}

Values einsum_of(OnnxConversion& c) {
  const std::string equation = c.text("equation", "");
  std::vector<std::string> labels = labels_of(c, equation);
  const std::string out = labels.back();
  std::vector<Labelled> operands;
  for (size_t i = 0; i < c.inputs(); ++i) {
    c.check(std::ssize(labels[i]) == c.rank(i),
            "its equation '{}' names {} for {}: expected all "
            "dimensions",
            equation, labels[i], to_string(c[i].sizes));
    for (const char label : labels[i])
      c.check(std::ranges::count(labels[i], label) == 1,
              "its equation '{}' takes a diagonal: expected each letter once in an operand",
              equation);
    operands.push_back({number_operand(c, c[i]), labels[i]});
  }
  Labelled y = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string wanted = out;
    for (size_t k = i + 1; k < operands.size(); ++k) wanted += operands[k].labels;
    y = multiplied(c, y, operands[i], wanted);
  }
  y = summed(c, y, out);
  c.check(std::ranges::all_of(out, [&](char label) { return is_in(y.labels, label); }),
          "its equation '{}' wants letters that no operand has: expected some that are there",
          equation);
  return {ordered(c, y, out)};
}

// What passes put together

template <const char* const& op>
Values of_one(OnnxConversion& c) {
  return {c.call(op, {c[0]})};
}
constexpr const char *fused_silu = "silu", *fused_mish = "mish", *fused_hard_swish = "hard_swish",
                     *fused_hard_sigmoid = "hard_sigmoid";

Values fused_gelu(OnnxConversion& c) {
  return {c.call("gelu", {c[0]}, {{"approximate", c.text("approximate", "none")}})};
}

// Whether the axes are the last dimension alone.
bool is_last(const OnnxConversion& c, const Integers& axes) {
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == c.rank(0) - 1);
}

bool is_weight_of_rows(const OnnxConversion& c, size_t i) {
  return !c.has(i) || (c[i].rank() == 1 && c.sizes(i)[0] == c.sizes(0).back());
}

// (x - mean) / sqrt(mean((x - mean)^2) + eps) * scale + bias over some axes; without the mean for
// root mean squares.
Values fused_norm(OnnxConversion& c, bool centres) {
  const Integers axes = c.integers("axes", {-1});
  const double eps = meant_by(c.number("epsilon", 0));
  const OnnxValue& x = c[0];
  if (is_last(c, axes) && is_weight_of_rows(c, 1) && is_weight_of_rows(c, 2)) {
    c.keep_apart(x, {c.rank(0) - 1});
    OnnxValues operands{x};
    for (size_t i = 1; i < 3; ++i)
      if (c.has(i)) operands.push_back(c[i]);
    return {c.call(centres ? "layer_norm" : "rms_norm", operands,
                   {{"normalized_shape", Integers{c.size(0, -1)}}, {"eps", eps}})};
  }
  std::vector<int> dims;
  for (const int64_t axis : axes) dims.push_back(c.dimension(axis, c.rank(0)));
  c.keep_apart(x, dims);
  const auto mean = [&](const OnnxValue& of) {
    return c.call("mean", {of}, {{"dim", as_integers(dims)}, {"keepdim", true}});
  };
  const OnnxValue centred = centres ? c.call("sub", {x, mean(x)}) : x;
  const OnnxValue var = sum_of(c, mean(c.call("square", {centred})), eps);
  OnnxValue y = c.call("div", {centred, c.call("sqrt", {var})});
  if (c.has(1)) y = c.call("mul", {y, c[1]});
  return {c.has(2) ? c.call("add", {y, c[2]}) : y};
}
Values fused_layer_norm(OnnxConversion& c) { return fused_norm(c, true); }
Values fused_rms_norm(OnnxConversion& c) { return fused_norm(c, false); }

}  // namespace

void detail::add_onnx_layer_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"Dropout", {dropout_of}},
      {"MatMul", {matmul_of, {0, 1}}},
      {"Einsum", {einsum_of, {0, 1}}},
      {"accrue.Linear", {fused_linear, {1, 2}}},
      {"accrue.Noise", {noise_of}},
      {"accrue.Silu", {of_one<fused_silu>}},
      {"accrue.Mish", {of_one<fused_mish>}},
      {"accrue.HardSwish", {of_one<fused_hard_swish>}},
      {"accrue.HardSigmoid", {of_one<fused_hard_sigmoid>}},
      {"accrue.Gelu", {fused_gelu}},
      {"accrue.LayerNorm", {fused_layer_norm, {1, 2}}},
      {"accrue.RmsNorm", {fused_rms_norm, {1}}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
