// Attention that exporters took apart.

#include <algorithm>
#include <limits>

#include "core/inside.h"
#include "onnx/reader/node_list.h"

namespace accrue {
namespace {

struct NodeScores {
  std::string value;
  std::string mask, kind = "none";
  double masked = 0;
};

// Scores with a mask that is added to them, or that chooses between them and a number.
NodeScores masked_scores(NodeMatch& match, const std::string& value) {
  NodeMatch tried = match;
  if (const OnnxNode* const where = tried.take(value, "Where")) {
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const auto masked = match.list.number(where->inputs[3 - i]);
      if (!masked) continue;
      match.nodes = tried.nodes;
      return {where->inputs[i], where->inputs[0], i == 1 ? "where" : "where_not", *masked};
    }
  }
  if (const OnnxNode* const sum = tried.take(value, "Add")) {
    // The scores are the operand that a product gives.
    for (size_t i = 0; i < 2; ++i) {
      NodeMatch further = tried;
      const NodeProduct product = product_of(further, sum->inputs[i]);
      if (product.factors.size() != 1 || !further.take(product.factors[0], "MatMul")) continue;
      match.nodes = tried.nodes;
      return {sum->inputs[i], sum->inputs[1 - i], "add"};
    }
  }
  return {value, {}};
}

// k as it is before the scores: with its last two dimensions exchanged or not.
struct NodeKeys {
  std::string k, rows, list;
  bool is_transposed = true;
};

NodeKeys keys_of(NodeMatch& match, NodeList& list, const std::string& value) {
  NodeMatch tried = match;
  if (const OnnxNode* const node = tried.take(value, "Transpose")) {
    std::vector<int64_t> order = node->integers("perm", {});
    if (order.size() < 2) return {value, {}, {}};
    std::swap(order.back(), order[order.size() - 2]);
    if (std::ranges::is_sorted(order)) {
      if (list.uses(value) == 1) match.nodes = tried.nodes;
      return {node->inputs[0], {}, {}, false};
    }
    // A transposition of its own.
    OnnxNode other = *node;
    other.attributes = {{"perm", order}};
    other.outputs = {value + " as rows"};
    list.insert(match.last, other);
    return {other.outputs[0], {}, {}, false};
  }
  // By way of three dimensions: reshape, transpose, reshape.
  const OnnxNode* const second = tried.take(value, "Reshape");
  const OnnxNode* const turn = second ? tried.take(second->inputs[0], "Transpose") : nullptr;
  const OnnxNode* const first = turn ? tried.take(turn->inputs[0], "Reshape") : nullptr;
  if (!first || turn->integers("perm", {}) != std::vector<int64_t>{0, 2, 1}) return {value, {}, {}};
  return {value, first->inputs[0], turn->inputs[0]};
}

// The operand of a dropout that drops nothing.
std::optional<std::string> undropped(NodeMatch& match, const std::string& value) {
  NodeMatch tried = match;
  const OnnxNode* const node = tried.take(value, "Dropout");
  if (!node) return {};
  const bool has_ratio = node->inputs.size() > 1 && !node->inputs[1].empty();
  const auto ratio =
      has_ratio ? match.list.number(node->inputs[1]) : std::optional(node->number("ratio", 0.5));
  if (ratio != 0.0) return {};
  match.nodes = tried.nodes;
  return node->inputs[0];
}

}  // namespace

bool detail::fuse_attention(NodeList& list, size_t last) {
  if (list[last].op != "MatMul") return false;
  NodeMatch match(list, last);
  OnnxNode by{
      .op = "Attention", .domain = {}, .name = {}, .inputs = {}, .outputs = {}, .attributes = {}};
  std::string p = list[last].inputs[0];
  const std::string v = list[last].inputs[1];
  // where(is_nan(p), 0, p), for rows that see nothing
  NodeMatch tried = match;
  if (const OnnxNode* const where = tried.take(p, "Where")) {
    const OnnxNode* const is_nan = tried.take(where->inputs[0], "IsNaN");
    if (!is_nan || is_nan->inputs[0] != where->inputs[2] || list.number(where->inputs[1]) != 0.0)
      return false;
    p = where->inputs[2];
    match.nodes = tried.nodes;
    by.attributes["clears_nan"] = int64_t{1};
  }
  if (const auto kept = undropped(match, p)) p = *kept;
  const OnnxNode* const softmax = match.take(p, "Softmax");
  if (!softmax) return false;
  const int64_t axis = softmax->integer("axis", list.opset() < 13 ? 1 : -1);
  // Before opset 13 a softmax goes over all dimensions from its axis on.
  if (list.opset() < 13 && axis >= 0 && axis < 2) return false;
  by.attributes["axis"] = axis;
  const NodeScores scores = masked_scores(match, softmax->inputs[0]);
  const NodeProduct scaled = product_of(match, scores.value);
  if (scaled.factors.size() != 1) return false;
  const OnnxNode* const product = match.take(scaled.factors[0], "MatMul");
  if (!product) return false;
  // Numbers that are multiplied into q and k belong to the scale, other factors to q and k.
  const auto side = [&](const std::string& value) {
    NodeMatch further = match;
    NodeProduct found = product_of(further, value);
    if (found.factors.size() != 1) return NodeProduct{.factors = {value}};
    match.nodes = further.nodes;
    return found;
  };
  const NodeProduct q = side(product->inputs[0]), k = side(product->inputs[1]);
  const NodeKeys keys = keys_of(match, list, k.factors[0]);
  if (!match.is_closed()) return false;
  by.inputs = {q.factors[0], keys.k, v, scores.mask, keys.rows, keys.list};
  std::vector<int64_t> divides;
  for (const NodeProduct* const each : {&scaled, &q, &k}) {
    by.inputs.insert(by.inputs.end(), each->known.begin(), each->known.end());
    divides.insert(divides.end(), each->divides.begin(), each->divides.end());
  }
  by.attributes["scale"] = scaled.number * q.number * k.number;
  by.attributes["divides"] = divides;
  by.attributes["transposed"] = int64_t{keys.is_transposed};
  by.attributes["mask"] = scores.kind;
  by.attributes["masked"] = scores.masked;
  list.replace(match.nodes, last, std::move(by));
  return true;
}

}  // namespace accrue
