// Products with a weight, and the bias that is added to them.

#include "core/inside.h"
#include "onnx/reader/node_list.h"

namespace accrue {
namespace {

// The weight of a product, as the file holds it.
struct LinearWeight {
  std::string name;
  bool is_turned = false;
};

std::optional<LinearWeight> linear_weight(const NodeList& list, const std::string& value) {
  LinearWeight weight{value};
  const auto giver = list.giver(value);
  if (giver && !list.is_gone(*giver) && list[*giver].domain.empty() &&
      list[*giver].op == "Transpose") {
    const std::vector<int64_t> turn{1, 0};
    if (list[*giver].integers("perm", turn) != turn) return {};
    weight = {list[*giver].inputs[0], true};
  }
  const OnnxTensor* const tensor = list.tensor(weight.name);
  if (!tensor || tensor->shape.rank() != 2 || !is_floating(tensor->type)) return {};
  return weight;
}

}  // namespace

bool detail::fuse_linear(NodeList& list, size_t last) {
  if (list[last].op != "Add") return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const std::string bias = list[last].inputs[i];
    const OnnxTensor* const numbers = list.tensor(bias);
    if (!numbers || numbers->shape.rank() != 1) continue;
    NodeMatch match(list, last);
    const OnnxNode* const product = match.take(list[last].inputs[1 - i], "MatMul");
    const auto weight = product ? linear_weight(list, product->inputs[1]) : std::nullopt;
    if (!weight || !match.is_closed()) continue;
    const OnnxTensor& of_weight = *list.tensor(weight->name);
    if (numbers->type != of_weight.type ||
        numbers->shape[0] != of_weight.shape[weight->is_turned ? 0 : 1])
      continue;
    OnnxNode by{.op = "Linear",
                .domain = {},
                .name = {},
                .inputs = {product->inputs[0], weight->name, bias},
                .outputs = {},
                .attributes = {{"turned", int64_t{weight->is_turned}}}};
    list.replace(match.nodes, last, std::move(by));
    return true;
  }
  return false;
}

}  // namespace accrue
