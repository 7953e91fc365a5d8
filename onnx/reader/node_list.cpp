#include "onnx/reader/node_list.h"

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "onnx/reader/passes.h"

namespace accrue {
namespace {

bool has_op(const OnnxNode& node, std::string_view op) {
  return node.domain.empty() && node.op == op;
}

}  // namespace

NodeList::NodeList(std::vector<OnnxNode> nodes, const OnnxFile& file, std::set<std::string> outputs)
    : nodes_(std::move(nodes)), file_(file), outputs_(std::move(outputs)) {
  index();
}

void NodeList::index() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string& output : nodes_[i].outputs) givers_[output] = i;
    for (const std::string& input : nodes_[i].inputs) takers_[input].push_back(i);
  }
}

std::optional<size_t> NodeList::giver(const std::string& value) const {
  const auto found = givers_.find(value);
  if (value.empty() || found == givers_.end()) return {};
  return found->second;
}

const std::vector<size_t>& NodeList::takers(const std::string& value) const {
  static const std::vector<size_t> none;
  const auto found = takers_.find(value);
  return found == takers_.end() ? none : found->second;
}

size_t NodeList::uses(const std::string& value) const {
  return takers(value).size() + (is_output(value) ? 1 : 0);
}

const OnnxTensor* NodeList::tensor(const std::string& value) const {
  if (const auto found = file_.initializers.find(value); found != file_.initializers.end())
    return &found->second;
  const auto node = giver(value);
  if (!node || !has_op(nodes_[*node], "Constant")) return nullptr;
  const auto attribute = nodes_[*node].attributes.find("value");
  return attribute == nodes_[*node].attributes.end() ? nullptr
                                                     : std::get_if<OnnxTensor>(&attribute->second);
}

std::optional<double> NodeList::number(const std::string& value) const {
  if (const OnnxTensor* const found = tensor(value)) {
    if (found->type == OnnxType::string || found->numel() != 1 || found->shape.rank() > 1)
      return {};
    return found->numbers().front();
  }
  const auto node = giver(value);
  if (!node) return {};
  const OnnxNode& given = nodes_[*node];
  if (has_op(given, "Constant") && given.has("value_float")) return given.number("value_float", 0);
  if (has_op(given, "Constant") && given.has("value_int"))
    return double(given.integer("value_int", 0));
  // A number that is brought into the type of another value.
  if ((has_op(given, "Cast") || has_op(given, "CastLike") || has_op(given, "Identity")) &&
      !given.inputs.empty())
    return number(given.inputs[0]);
  return {};
}

std::optional<std::vector<int64_t>> NodeList::integers(const std::string& value) const {
  const OnnxTensor* const found = tensor(value);
  if (found && !is_floating(found->type) && found->type != OnnxType::string)
    return found->integers();
  const auto node = giver(value);
  if (node && has_op(nodes_[*node], "Constant") && nodes_[*node].has("value_ints"))
    return nodes_[*node].integers("value_ints", {});
  return {};
}

bool NodeList::is_known_number(const std::string& value) const {
  if (number(value)) return true;
  const auto node = giver(value);
  if (!node) return false;
  const OnnxNode& given = nodes_[*node];
  static const std::set<std::string> calculate{"Cast", "CastLike", "Sqrt",       "Div",    "Mul",
                                               "Pow",  "Identity", "Reciprocal", "Squeeze"};
  if (!given.domain.empty()) return false;
  if (given.op == "Squeeze" && given.inputs.size() > 1) return is_known_number(given.inputs[0]);
  if (calculate.contains(given.op))
    return std::ranges::all_of(given.inputs,
                               [&](const std::string& input) { return is_known_number(input); });
  // One size of a shape.
  if ((given.op != "Gather" && given.op != "Slice") || given.inputs.empty()) return false;
  const auto shape = giver(given.inputs[0]);
  return shape && has_op(nodes_[*shape], "Shape");
}

void NodeList::replace(const std::set<size_t>& nodes, size_t last, OnnxNode by) {
  by.domain = "accrue";
  if (by.outputs.empty()) by.outputs = {nodes_[last].outputs.front()};
  if (by.name.empty()) by.name = nodes_[last].name;
  by.op_in_file = nodes_[last].op_in_file.empty() ? nodes_[last].op : nodes_[last].op_in_file;
  for (const size_t node : nodes) {
    for (const std::string& input : nodes_[node].inputs) std::erase(takers_[input], node);
    if (node != last) gone_.insert(node);
  }
  for (const std::string& input : by.inputs) takers_[input].push_back(last);
  nodes_[last] = std::move(by);
}

void NodeList::insert(size_t place, OnnxNode node) { before_[place].push_back(std::move(node)); }

std::vector<OnnxNode> NodeList::left() const {
  std::vector<OnnxNode> left;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (const auto found = before_.find(i); found != before_.end())
      left.insert(left.end(), found->second.begin(), found->second.end());
    if (!gone_.contains(i)) left.push_back(nodes_[i]);
  }
  return left;
}

const OnnxNode* NodeMatch::take(const std::string& value, std::string_view op) {
  const auto node = list.giver(value);
  if (!node || list.is_gone(*node) || !has_op(list[*node], op)) return nullptr;
  nodes.insert(*node);
  return &list[*node];
}

namespace {

bool is_zero(double number) { return std::abs(number) < 1e-12; }

}  // namespace

std::optional<std::string> NodeMatch::beside(const OnnxNode& node, double number) const {
  if (node.inputs.size() != 2) return {};
  for (size_t i = 0; i < 2; ++i) {
    const auto found = list.number(node.inputs[i]);
    if (found && (number == 0 ? is_zero(*found) : is_near(*found, number)))
      return node.inputs[1 - i];
  }
  return {};
}

bool NodeMatch::is_closed() const {
  for (const size_t node : nodes) {
    if (node == last) continue;
    for (const std::string& output : list[node].outputs) {
      if (output.empty()) continue;
      if (list.is_output(output)) return false;
      for (const size_t taker : list.takers(output))
        if (!nodes.contains(taker)) return false;
    }
  }
  return true;
}

namespace {

void multiply(NodeMatch& match, const std::string& value, bool divides, bool is_root,
              NodeProduct& product) {
  const NodeList& list = match.list;
  if (const auto number = list.number(value)) {
    product.number *= divides ? 1 / *number : *number;
    return;
  }
  if (list.is_known_number(value)) {
    product.known.push_back(value);
    product.divides.push_back(divides ? 1 : 0);
    return;
  }
  const auto node = list.giver(value);
  const bool is_single = is_root || list.uses(value) == 1;
  if (!divides && node && is_single && !list.is_gone(*node) && list[*node].inputs.size() == 2) {
    const OnnxNode& given = list[*node];
    const bool is_quotient = has_op(given, "Div") && (list.number(given.inputs[1]) ||
                                                      list.is_known_number(given.inputs[1]));
    if (has_op(given, "Mul") || is_quotient) {
      match.nodes.insert(*node);
      multiply(match, given.inputs[0], false, false, product);
      multiply(match, given.inputs[1], is_quotient, false, product);
      return;
    }
  }
  product.factors.push_back(value);
}

}  // namespace

NodeProduct detail::product_of(NodeMatch& match, const std::string& value, bool is_root) {
  NodeProduct product;
  multiply(match, value, false, is_root, product);
  return product;
}

bool detail::is_near(double a, double b) {
  return std::abs(a - b) <= 3e-7 * std::max(std::abs(a), std::abs(b));
}

namespace {

// Whether a node has the inputs at which the passes look.
bool has_inputs(const OnnxNode& node) {
  static const std::map<std::string, size_t, std::less<>> least{
      {"Constant", 0}, {"Add", 2},    {"Sub", 2},    {"Mul", 2},        {"Div", 2},  {"Pow", 2},
      {"Less", 2},     {"Expand", 2}, {"MatMul", 2}, {"SequenceAt", 2}, {"Where", 3}};
  const auto found = least.find(node.op);
  return node.inputs.size() >= (found == least.end() ? 1 : found->second);
}

}  // namespace

std::vector<OnnxNode> detail::put_together(std::vector<OnnxNode> nodes, const OnnxFile& file,
                                           const std::set<std::string>& outputs) {
  // A node without them is refused later, by its name.
  if (!std::ranges::all_of(nodes, has_inputs)) return nodes;
  NodeList list(std::move(nodes), file, outputs);
  // From the end on, so that the larger of two parts is found first.
  for (size_t i = list.size(); i-- > 0;)
    for (const auto pass :
         {fuse_attention, fuse_norm, fuse_noise, fuse_activation, fuse_sequence, fuse_linear})
      if (!list.is_gone(i) && list[i].domain.empty() && pass(list, i)) break;
  return list.left();
}

}  // namespace accrue
