// Rows of the list of ops (layers/graph_ops.h) for general ops: formulas, moved data, reductions.

#include "core/inside.h"
#include "kernels/attention.h"
#include "kernels/batched_matmul.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/pad.h"
#include "kernels/rearrange.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "layers/graph_ops.h"

namespace accrue {
namespace {

using Ops = std::vector<GraphOp>;

std::vector<int> dimensions(const OpCall& c, std::string_view name) {
  if (!c.has(name)) return {};
  const Integers& all = c.integers(name);
  return {all.begin(), all.end()};
}

KeepDims keep(const OpCall& c) { return c.flag("keepdim") ? KeepDims::yes : KeepDims::no; }

// A row for each line of the list of formulas, by its own name or one of PyTorch's.
GraphOp row_of_formula(const FormulaInfo& info, std::string_view name) {
  constexpr std::string_view operands[]{"(input", "(input, other", "(condition, input, other"};
  std::string signature = std::string(name) + std::string(operands[info.operands - 1]);
  std::vector<std::string> scalars;
  for (const FormulaInfo::Scalar& scalar : info.scalars) {
    if (scalar.name.empty()) continue;
    signature += fmt::format(", {}: float = {}", scalar.name, scalar.value);
    scalars.emplace_back(scalar.name);
  }
  signature += info.is_differentiable() ? ")" : ") -> constant";
  return row_of(signature, [formula = info.formula, n = info.operands, scalars](OpCall& c) {
    std::array<Tensor, 3> operands;
    for (int i = 0; i < n; ++i) operands[size_t(i)] = c.take(size_t(i));
    std::vector<double> values;
    for (const std::string& scalar : scalars) values.push_back(c.number(scalar));
    return apply(formula, std::move(operands), values);
  });
}

void add_formulas(Ops& ops) {
  for (const FormulaInfo& info : all_formulas())
    if (info.formula != Formula::add && info.formula != Formula::mul &&
        info.formula != Formula::clamp)
      ops.push_back(row_of_formula(info, info.name));
  ops.push_back(row_of_formula(info_of(Formula::hard_sigmoid), "hardsigmoid"));
  ops.push_back(row_of_formula(info_of(Formula::hard_swish), "hardswish"));
  ops.push_back(row_of_formula(info_of(Formula::log_sigmoid), "logsigmoid"));
  ops.push_back(row_of("clamp(input, min: float = None, max: float = None)", [](OpCall& c) {
    return clamp(c.take(), c.has("min") ? c.number("min") : -HUGE_VAL,
                 c.has("max") ? c.number("max") : HUGE_VAL);
  }));
}

// Moved data

std::vector<Tensor> split_of(OpCall& c) {
  const int dim = c.dimension("dim");
  Integers sizes = c.integers("split_size_or_sections");
  const int64_t n = c[0].size(dim);
  if (sizes.size() == 1) {
    const int64_t each = sizes[0];
    check(each >= 1, "[split] split_size_or_sections is {}: expected at least 1", each);
    sizes.clear();
    for (int64_t begin = 0; begin < n; begin += each) sizes.push_back(std::min(each, n - begin));
  }
  return split(c[0], sizes, dim);
}

std::vector<Tensor> chunk_of(OpCall& c) {
  const int dim = c.dimension("dim");
  const int64_t n = c[0].size(dim), chunks = c.integer("chunks");
  check(chunks >= 1, "[chunk] chunks is {}: expected at least 1", chunks);
  const int64_t each = std::max<int64_t>(1, (n + chunks - 1) / chunks);
  Integers sizes;
  for (int64_t begin = 0; begin < n; begin += each) sizes.push_back(std::min(each, n - begin));
  return split(c[0], sizes, dim);
}

// Sizes of -1 are x's.
Tensor expand_of(OpCall& c) {
  const Shape& shape = c[0].shape();
  std::vector<int64_t> sizes;
  const Extents& given = c.sizes("size");
  for (size_t i = 0; i < given.size(); ++i) {
    const int64_t size = given[i].of(c.where.samples);
    const int64_t of_x = std::ssize(given) - std::ssize(shape.sizes());
    check(size >= 0 || (size == -1 && int64_t(i) >= of_x),
          "[expand] size is {} for {}: expected sizes, or -1 for a size that is there", size,
          shape);
    sizes.push_back(size >= 0 ? size : shape[int(int64_t(i) - of_x)]);
  }
  return expand(c[0], Shape(sizes));
}

// PyTorch names the pads of the last dimension first.
Tensor pad_of(OpCall& c) {
  const Integers& given = c.integers("pad");
  check(given.size() % 2 == 0, "[pad] pad has {} numbers: expected two for each dimension",
        given.size());
  Pads pads;
  for (size_t i = given.size(); i > 0; i -= 2) pads.emplace_back(given[i - 2], given[i - 1]);
  const std::string& mode = c.text("mode");
  if (mode == "constant") return pad(c[0], pads, c.number("value"));
  if (mode == "reflect") return pad(c[0], pads, Border::reflect);
  if (mode == "replicate") return pad(c[0], pads, Border::edge);
  if (mode == "circular") return pad(c[0], pads, Border::wrap);
  fail("[pad] mode is '{}': expected constant, reflect, replicate or circular", mode);
}

void add_moves(Ops& ops) {
  ops.push_back(row_of("detach(input) -> constant", [](OpCall& c) { return c[0].detach(); }));
  ops.push_back(row_of("permute(input, dims: ints)",
                       [](OpCall& c) { return permute(c[0], dimensions(c, "dims")); }));
  ops.push_back(row_of("transpose(input, dim0: int, dim1: int)", [](OpCall& c) {
    return transpose(c[0], c.dimension("dim0"), c.dimension("dim1"));
  }));
  ops.push_back(row_of("slice(input, dim: int, start: int = 0, end: int = None, step: int = 1)",
                       [](OpCall& c) {
                         const int dim = c.dimension("dim");
                         const int64_t end = c.has("end") ? c.integer("end") : c[0].size(dim);
                         return slice(c[0], dim, c.integer("start"), end, c.integer("step"));
                       }));
  ops.push_back(row_of("split(input, split_size_or_sections: ints, dim: int = 0) -> several",
                       GraphOp::Run(split_of)));
  ops.push_back(
      row_of("chunk(input, chunks: int, dim: int = 0) -> several", GraphOp::Run(chunk_of)));
  ops.push_back(row_of("stack(tensors: tensors, dim: int = 0)", [](OpCall& c) {
    const int dim = int(c.integer("dim"));
    return stack(c.take_all(), dim);
  }));
  ops.push_back(row_of("pad(input, pad: ints, mode: str = 'constant', value: float = 0)", pad_of));
  ops.push_back(row_of("roll(input, shifts: ints, dims: ints)", [](OpCall& c) {
    return roll(c[0], c.integers("shifts"), dimensions(c, "dims"));
  }));
  ops.push_back(row_of("flip(input, dims: ints)",
                       [](OpCall& c) { return flip(c[0], dimensions(c, "dims")); }));
  ops.push_back(row_of("expand(input, size: sizes)", expand_of));
  ops.push_back(
      row_of("tile(input, dims: ints)", [](OpCall& c) { return tile(c[0], c.integers("dims")); }));
  ops.push_back(row_of("index_select(input, dim: int, index)",
                       [](OpCall& c) { return index_select(c[0], c.dimension("dim"), c[1]); }));
  ops.push_back(row_of("gather(input, dim: int, index)",
                       [](OpCall& c) { return gather(c[0], c.dimension("dim"), c[1]); }));
}

// Reductions

void add_reductions(Ops& ops) {
  const auto add = [&]<class F>(const char* name, F reduce) {
    ops.push_back(
        row_of(fmt::format("{}(input, dim: ints = None, keepdim: bool = False)", name),
               [reduce](OpCall& c) { return reduce(c[0], dimensions(c, "dim"), keep(c)); }));
  };
  add("sum", [](auto&&... x) { return sum(x...); });
  add("mean", [](auto&&... x) { return mean(x...); });
  add("amax", [](auto&&... x) { return amax(x...); });
  add("amin", [](auto&&... x) { return amin(x...); });
  ops.push_back(row_of(
      "var(input, dim: ints = None, correction: float = 1, keepdim: bool = False)",
      [](OpCall& c) { return var(c[0], dimensions(c, "dim"), keep(c), c.number("correction")); }));
  ops.push_back(row_of("argmax(input, dim: int, keepdim: bool = False) -> constant",
                       [](OpCall& c) { return argmax(c[0], c.dimension("dim"), keep(c)); }));
  ops.push_back(row_of("argmin(input, dim: int, keepdim: bool = False) -> constant",
                       [](OpCall& c) { return argmin(c[0], c.dimension("dim"), keep(c)); }));
  ops.push_back(row_of("cumsum(input, dim: int)",
                       [](OpCall& c) { return cumsum(c[0], c.dimension("dim")); }));
  ops.push_back(row_of("softmax(input, dim: int)", [](OpCall& c) {
    const int dim = c.dimension("dim");
    return softmax(c.take(), dim);
  }));
  ops.push_back(row_of("log_softmax(input, dim: int)", [](OpCall& c) {
    const int dim = c.dimension("dim");
    return log_softmax(c.take(), dim);
  }));
}

Tensor general_attention_of(OpCall& c) {
  AttentionOptions options;
  if (c.flag("is_causal")) options.mask = AttentionMask::causal;
  if (c.has("scale")) options.scale = c.number("scale");
  options.key_mask = c[3];
  return attention(c[0], c[1], c[2], options);
}

void add_general_attention(Ops& ops) {
  ops.push_back(
      row_of("scaled_dot_product_attention(query, key, value, is_causal: bool = False, "
             "scale: float = None, key_mask = None)",
             general_attention_of));
}

}  // namespace

void detail::add_general_ops(std::vector<GraphOp>& ops) {
  for (const auto add : {add_formulas, add_moves, add_reductions, add_general_attention}) add(ops);
}

}  // namespace accrue
