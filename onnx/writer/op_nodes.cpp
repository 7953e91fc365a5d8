// The nodes of ops that graphs call, for those whose kernels say less than their attributes: moved
// data, reductions, attention.

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "onnx/writer/onnx_trace.h"

namespace accrue {
namespace {

using Name = OnnxTrace::Name;
using Names = std::vector<Name>;
using Integers = OnnxTrace::Integers;
using FreeShape = OnnxTrace::FreeShape;

Integers dimensions(const OnnxOp& op, std::string_view name) {
  const int rank = op.call[0].shape().rank();
  Integers dims;
  if (op.call.has(name)) dims = op.call.integers(name);
  for (int64_t& dim : dims)
    if (dim < 0) dim += rank;
  return dims;
}

// Moved data

Names permute_nodes(const OnnxOp& op) {
  return {op.to.transposed(op.in(), dimensions(op, "dims"))};
}

Names transpose_nodes(const OnnxOp& op) {
  Integers order(size_t(op.call[0].shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[size_t(op.call.dimension("dim0"))], order[size_t(op.call.dimension("dim1"))]);
  return {op.to.transposed(op.in(), order)};
}

// Elements begin, begin + step, ... of some dimensions, up to `end`.
Name sliced(OnnxTrace& to, const Name& x, const Integers& begin, const Integers& end,
            const Integers& dims, const Integers& steps) {
  return to.graph.add("Slice", {x, to.graph.integers(begin), to.graph.integers(end),
                                to.graph.integers(dims), to.graph.integers(steps)});
}

Names slice_nodes(const OnnxOp& op) {
  const int dim = op.call.dimension("dim");
  const int64_t begin = op.call.integer("start"), step = op.call.integer("step");
  const bool has_end = op.call.has("end");
  const bool is_whole = begin == 0 && !has_end && step == 1;
  check(is_whole || !op.shape().is_free(dim) || op.results[0].view().data != op.call[0].view().data,
        "[slice] of {} samples has no counterpart in ONNX where it takes all: expected fewer, or "
        "no start and end",
        op.call[0].size(dim));
  const int64_t end = has_end ? op.call.integer("end") : std::numeric_limits<int64_t>::max();
  return {sliced(op.to, op.in(), {begin}, {end}, {dim}, {step})};
}

// Parts of the sizes that the results have along `dim`.
Names split_nodes(const OnnxOp& op) {
  const int dim = op.call.dimension("dim");
  if (op.results.size() == 1) return {op.in()};
  FreeShape sizes;
  std::vector<int64_t> now, before;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const FreeShape shape = op.result(i);
    now.push_back(shape.shape[dim]);
    before.push_back(shape.before[dim]);
  }
  // A shape holds at most Shape::max_rank sizes.
  Names parts;
  for (size_t begin = 0; begin < now.size(); begin += Shape::max_rank) {
    const auto part = [&](const std::vector<int64_t>& all) {
      return Shape(std::span(all).subspan(begin).first(
          std::min(all.size() - begin, size_t(Shape::max_rank))));
    };
    parts.push_back(op.to.sizes_of({part(now), part(before)}));
  }
  const Name all =
      parts.size() == 1 ? parts[0] : op.to.graph.add("Concat", parts, {{"axis", int64_t{0}}});
  return op.to.graph.add("Split", {op.in(), all}, now.size(), {{"axis", int64_t{dim}}});
}

Names stack_nodes(const OnnxOp& op) {
  const int rank = op.results[0].shape().rank();
  const int64_t given = op.call.integer("dim"), dim = given < 0 ? given + rank : given;
  Names parts;
  for (const Tensor& x : op.call.operands())
    parts.push_back(op.to.graph.add("Unsqueeze", {op.to.in(x), op.to.graph.integers({dim})}));
  return {op.to.graph.add("Concat", parts, {{"axis", dim}})};
}

// y[i] = x[(i - before) modulo n] along a dimension, for `before` + n + `after` elements.
Name wrapped(OnnxTrace& to, const Name& x, const FreeShape& shape, int64_t dim, int64_t before,
             int64_t after) {
  const int64_t n = shape.shape[int(dim)];
  Name index;
  if (!shape.is_free(int(dim))) {
    Integers places;
    for (int64_t i = -before; i < n + after; ++i) places.push_back(((i % n) + n) % n);
    index = to.graph.integers(places);
  } else {
    const Name size = to.graph.add("Gather", {to.graph.add("Shape", {x}), to.graph.integer(dim)});
    const Name end = to.sum(size, to.graph.integer(after));
    const Name range = to.graph.add("Range", {to.graph.integer(-before), end, to.graph.integer(1)});
    index = to.graph.add("Mod", {range, size});
  }
  return to.graph.add("Gather", {x, index}, {{"axis", dim}});
}

Names roll_nodes(const OnnxOp& op) {
  const Integers shifts = op.call.integers("shifts"), dims = dimensions(op, "dims");
  const FreeShape shape = op.shape();
  Name y = op.in();
  for (size_t i = 0; i < dims.size(); ++i)
    y = wrapped(op.to, y, shape, dims[i], shifts[i], -shifts[i]);
  return {y};
}

Names flip_nodes(const OnnxOp& op) {
  const Integers dims = dimensions(op, "dims");
  const Integers minus_ones(dims.size(), -1);
  const Integers ends(dims.size(), std::numeric_limits<int64_t>::min());
  return {sliced(op.to, op.in(), minus_ones, ends, dims, minus_ones)};
}

// PyTorch names the pads of the last dimension first.
Names pad_nodes(const OnnxOp& op) {
  const Integers& given = op.call.integers("pad");
  const std::string& mode = op.call.text("mode");
  const auto rank = size_t(op.call[0].shape().rank());
  Integers pads(2 * rank, 0);
  for (size_t i = 0; i < given.size(); ++i) pads[rank * (i % 2) + rank - 1 - i / 2] = given[i];
  if (mode == "circular") {
    const FreeShape shape = op.shape();
    Name y = op.in();
    for (size_t d = 0; d < rank; ++d)
      if (pads[d] != 0 || pads[rank + d] != 0)
        y = wrapped(op.to, y, shape, int64_t(d), pads[d], pads[rank + d]);
    return {y};
  }
  Names inputs{op.in(), op.to.graph.integers(pads)};
  if (mode == "constant" && op.call.number("value") != 0) {
    check(op.call[0].dtype() == DType::f32,
          "[pad] of {} by {} has no counterpart in ONNX: expected 0", name(op.call[0].dtype()),
          op.call.number("value"));
    inputs.push_back(op.to.graph.number(op.call.number("value")));
  }
  return {op.to.graph.add("Pad", inputs, {{"mode", mode == "replicate" ? "edge" : mode}})};
}

Names expand_nodes(const OnnxOp& op) {
  return {op.to.graph.add("Expand", {op.in(), op.to.sizes_of(op.result())})};
}

Names tile_nodes(const OnnxOp& op) {
  const auto rank = size_t(op.call[0].shape().rank());
  Integers repeats = op.call.integers("dims");
  Name x = op.in();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  if (repeats.size() > rank) {
    Integers more(repeats.size() - rank);
    std::iota(more.begin(), more.end(), 0);
    x = op.to.graph.add("Unsqueeze", {x, op.to.graph.integers(more)});
  }
  return {op.to.graph.add("Tile", {x, op.to.graph.integers(repeats)})};
}

Names index_select_nodes(const OnnxOp& op) {
  return {op.to.graph.add("Gather", {op.in(0), op.in(1)},
                          {{"axis", int64_t{op.call.dimension("dim")}}})};
}

Names gather_nodes(const OnnxOp& op) {
  return {op.to.graph.add("GatherElements", {op.in(0), op.in(1)},
                          {{"axis", int64_t{op.call.dimension("dim")}}})};
}

Names matmul_nodes(const OnnxOp& op) { return {op.to.graph.add("MatMul", {op.in(0), op.in(1)})}; }

// Reductions

int64_t keeps(const OnnxOp& op) { return op.call.flag("keepdim") ? 1 : 0; }

Name sum_over(const OnnxOp& op, const Name& x, const Integers& dims, int64_t keeps) {
  Names inputs{x};
  if (!dims.empty()) inputs.push_back(op.to.graph.integers(dims));
  return op.to.graph.add("ReduceSum", inputs, {{"keepdims", keeps}});
}

Name reduced(const OnnxOp& op, const Name& x, std::string_view name, const Integers& dims,
             int64_t keeps) {
  OnnxGraph::Attributes attributes{{"keepdims", keeps}};
  if (!dims.empty()) attributes.emplace_back("axes", dims);
  return op.to.graph.add(name, {x}, attributes);
}

Names sum_nodes(const OnnxOp& op) {
  return {sum_over(op, op.in(), dimensions(op, "dim"), keeps(op))};
}
Names mean_nodes(const OnnxOp& op) {
  return {reduced(op, op.in(), "ReduceMean", dimensions(op, "dim"), keeps(op))};
}
Names amax_nodes(const OnnxOp& op) {
  return {reduced(op, op.in(), "ReduceMax", dimensions(op, "dim"), keeps(op))};
}
Names amin_nodes(const OnnxOp& op) {
  return {reduced(op, op.in(), "ReduceMin", dimensions(op, "dim"), keeps(op))};
}

// sum (x - mean)^2 / (R - correction), where R may grow with the samples
Names var_nodes(const OnnxOp& op) {
  OnnxTrace& to = op.to;
  Integers dims = dimensions(op, "dim");
  const FreeShape shape = op.shape();
  const Name x = op.in();
  const Name difference = to.graph.add("Sub", {x, reduced(op, x, "ReduceMean", dims, 1)});
  const Name total = sum_over(op, to.multiply(difference, difference), dims, keeps(op));
  if (dims.empty()) {
    dims.resize(size_t(shape.shape.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  }
  const double correction = op.call.number("correction");
  const bool is_free = std::ranges::any_of(dims, [&](int64_t d) { return shape.is_free(int(d)); });
  if (is_free) {
    const Name terms =
        to.graph.add("Gather", {to.graph.add("Shape", {x}), to.graph.integers(dims)});
    const Name R = to.cast(to.graph.add("ReduceProd", {terms}, {{"keepdims", int64_t{0}}}),
                           onnx::TensorProto::FLOAT);
    const Name divisor = to.graph.add("Sub", {R, to.graph.number(correction)});
    return {to.graph.add("Div", {total, to.graph.add("Max", {divisor, to.graph.number(0)})})};
  }
  double terms = 1;
  for (const int64_t d : dims) terms *= double(shape.shape[int(d)]);
  return {to.graph.add("Div", {total, to.graph.number(std::max(terms - correction, 0.0))})};
}

Names place_of_extreme(const OnnxOp& op, std::string_view name) {
  const Name y = op.to.graph.add(
      name, {op.in()}, {{"axis", int64_t{op.call.dimension("dim")}}, {"keepdims", keeps(op)}});
  return {op.to.cast(y, onnx::TensorProto::INT32)};
}
Names argmax_nodes(const OnnxOp& op) { return place_of_extreme(op, "ArgMax"); }
Names argmin_nodes(const OnnxOp& op) { return place_of_extreme(op, "ArgMin"); }

// Attention

// Rows q [N, Tq, H D], k and v [N, T, G D] that attend, of G groups of R heads each. A mask [N, T]
// hides keys, if it has a name.
struct AttendingRows {
  Name q, k, v;
  int64_t Tq, T, G, R, D;
  Name key_mask = {};
};

// Where attention is causal, row i of q sees the first T - Tq + i + 1 rows of k and v. Heads h of a
// group g = h / R are adjacent: q [N, G, R, Tq, D], k [N, G, 1, D, T].
Names nodes_of_rows(OnnxTrace& to, const AttendingRows& x, bool is_causal, double scale) {
  const int64_t G = x.G, R = x.R, D = x.D;
  const auto heads = [&](const Name& rows, const Integers& shape, const Integers& order) {
    return to.transposed(to.graph.reshape(rows, shape), order);
  };
  const Name q = heads(x.q, {0, 0, G, R, D}, {0, 2, 3, 1, 4});
  const Name k = heads(x.k, {0, 0, G, 1, D}, {0, 2, 3, 4, 1});
  const Name v = heads(x.v, {0, 0, G, 1, D}, {0, 2, 3, 1, 4});
  Name unseen;
  if (is_causal) unseen = to.unseen_from(1 + x.T - x.Tq, {{x.Tq, x.T}, {x.Tq, x.T}});
  Name scores = to.multiply(to.graph.add("MatMul", {q, k}), scale);
  if (is_causal) scores = to.sum(scores, unseen);
  const Name a = to.softmax_of_seen(scores, x.key_mask, {0, 1, 1, 1, -1});
  const Name y = to.transposed(to.graph.add("MatMul", {a, v}), {0, 3, 1, 2, 4});
  return {to.graph.reshape(y, {0, 0, G * R * D})};
}

int64_t groups_of(const OnnxOp& op) {
  return op.call.integer(op.call.has("groups") ? "groups" : "heads");
}

void check_rows(const OnnxOp& op, size_t i) {
  check(!op.shape(i).is_free(1),
        "[{}] among samples has no counterpart in ONNX: expected [N, T, ...]", op.call.op_name());
}

Names causal_attention_nodes(const OnnxOp& op) {
  const int64_t H = op.call.integer("heads"), G = groups_of(op);
  const FreeShape of_q = op.shape(0), of_k = op.shape(1);
  const int64_t D = of_q.shape[2] / H, Tq = of_q.shape[1], T = of_k.shape[1];
  check_rows(op, 0);
  check_rows(op, 1);
  return nodes_of_rows(op.to, {op.in(0), op.in(1), op.in(2), Tq, T, G, H / G, D}, true,
                       1 / std::sqrt(double(D)));
}

Names attention_rows_nodes(const OnnxOp& op) {
  const int64_t H = op.call.integer("heads"), G = groups_of(op);
  const bool is_packed = !op.call[1].defined();
  const size_t of_keys = is_packed ? 0 : 1;
  const FreeShape of_q = op.shape(0), of_k = op.shape(of_keys);
  const int64_t D = of_q.shape[2] / (is_packed ? H + 2 * G : H);
  check_rows(op, 0);
  check_rows(op, of_keys);
  AttendingRows x{op.in(0), {}, {}, of_q.shape[1], of_k.shape[1], G, H / G, D};
  if (is_packed) {
    const auto parts = op.to.graph.add("Split", {x.q, op.to.graph.integers({H * D, G * D, G * D})},
                                       3, {{"axis", int64_t{2}}});
    x.q = parts[0], x.k = parts[1], x.v = parts[2];
  } else {
    x.k = op.in(1), x.v = op.in(2);
  }
  if (op.call[3].defined()) x.key_mask = op.in(3);
  const double scale = op.call.has("scale") ? op.call.number("scale") : 1 / std::sqrt(double(D));
  return nodes_of_rows(op.to, x, op.call.flag("is_causal"), scale);
}

}  // namespace

OnnxNodes nodes_of(std::string_view op) {
  static const std::map<std::string_view, OnnxNodes> rows{
      {"permute", permute_nodes},
      {"transpose", transpose_nodes},
      {"slice", slice_nodes},
      {"split", split_nodes},
      {"chunk", split_nodes},
      {"stack", stack_nodes},
      {"pad", pad_nodes},
      {"roll", roll_nodes},
      {"flip", flip_nodes},
      {"expand", expand_nodes},
      {"tile", tile_nodes},
      {"index_select", index_select_nodes},
      {"gather", gather_nodes},
      {"matmul", matmul_nodes},
      {"sum", sum_nodes},
      {"mean", mean_nodes},
      {"amax", amax_nodes},
      {"amin", amin_nodes},
      {"var", var_nodes},
      {"argmax", argmax_nodes},
      {"argmin", argmin_nodes},
      {"causal_attention", causal_attention_nodes},
      {"attention_rows", attention_rows_nodes},
  };
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : found->second;
}

}  // namespace accrue
