// Norms, activations and noise that exporters took apart.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/inside.h"
#include "onnx/reader/node_list.h"

namespace accrue {
namespace {

// Norms

using Axes = std::vector<int64_t>;

// A mean over axes that are kept, and what it is of.
struct NodeMean {
  std::string of;
  Axes axes;
};

std::optional<NodeMean> mean_of(NodeMatch& match, const std::string& value) {
  const OnnxNode* const node = match.take(value, "ReduceMean");
  if (!node || node->integer("keepdims", 1) != 1) return {};
  Axes axes = node->integers("axes", {});
  if (node->inputs.size() > 1) axes = match.list.integers(node->inputs[1]).value_or(Axes{});
  if (axes.empty()) return {};
  return NodeMean{node->inputs[0], axes};
}

// The root of which the quotient of a norm is taken: mean(d^2) + eps.
struct NodeSpread {
  std::string of;
  Axes axes;
  double eps;
};

std::optional<NodeSpread> spread_of(NodeMatch& match, const std::string& root) {
  const OnnxNode* const sqrt = match.take(root, "Sqrt");
  const OnnxNode* const sum = sqrt ? match.take(sqrt->inputs[0], "Add") : nullptr;
  if (!sum) return {};
  const bool is_first = match.list.number(sum->inputs[0]).has_value();
  const auto eps = match.list.number(sum->inputs[is_first ? 0 : 1]);
  if (!eps) return {};
  const auto mean = mean_of(match, sum->inputs[is_first ? 1 : 0]);
  if (!mean) return {};
  if (const OnnxNode* const power = match.take(mean->of, "Pow")) {
    if (match.list.number(power->inputs[1]) != 2.0) return {};
    return NodeSpread{power->inputs[0], mean->axes, *eps};
  }
  const OnnxNode* const square = match.take(mean->of, "Mul");
  if (!square || square->inputs[0] != square->inputs[1]) return {};
  return NodeSpread{square->inputs[0], mean->axes, *eps};
}

struct NodeNorm {
  std::string x;
  Axes axes;
  double eps;
  bool centres;
};

// x - mean(x) over these axes
std::optional<std::string> centred(NodeMatch& match, const std::string& value, const Axes& axes) {
  const OnnxNode* const difference = match.take(value, "Sub");
  if (!difference) return {};
  const auto mean = mean_of(match, difference->inputs[1]);
  if (!mean || mean->of != difference->inputs[0] || mean->axes != axes) return {};
  return mean->of;
}

// The dividend, and the root that divides it: a / root, a * (1 / root).
std::optional<std::array<std::string, 2>> quotient(NodeMatch& match, const std::string& value) {
  if (const OnnxNode* const node = match.take(value, "Div"))
    return std::array{node->inputs[0], node->inputs[1]};
  const OnnxNode* const node = match.take(value, "Mul");
  for (size_t i = 0; node && i < 2; ++i) {
    if (const OnnxNode* const inverse = match.take(node->inputs[i], "Reciprocal"))
      return std::array{node->inputs[1 - i], inverse->inputs[0]};
    NodeMatch other = match;
    const OnnxNode* const ratio = other.take(node->inputs[i], "Div");
    if (!ratio || match.list.number(ratio->inputs[0]) != 1.0) continue;
    match.nodes = other.nodes;
    return std::array{node->inputs[1 - i], ratio->inputs[1]};
  }
  return {};
}

std::optional<NodeNorm> norm_of(NodeMatch& match, const std::string& value) {
  NodeMatch tried = match;
  const auto parts = quotient(tried, value);
  if (!parts) return {};
  const auto spread = spread_of(tried, (*parts)[1]);
  if (!spread) return {};
  NodeNorm norm{spread->of, spread->axes, spread->eps, false};
  NodeMatch further = tried;
  if (const auto x = centred(further, spread->of, spread->axes)) {
    // The difference above may be another node of the same.
    const auto above = centred(further, (*parts)[0], spread->axes);
    if (above != x) return {};
    norm.x = *x;
    norm.centres = true;
    tried.nodes = further.nodes;
  } else if ((*parts)[0] != spread->of) {
    return {};
  }
  match.nodes = tried.nodes;
  return norm;
}

// The weight beside a norm in a node of two operands, and the value of the other.
std::optional<std::array<std::string, 2>> weighted(const NodeList& list, const OnnxNode& node) {
  if (node.inputs.size() != 2) return {};
  for (size_t i = 0; i < 2; ++i) {
    const OnnxTensor* const tensor = list.tensor(node.inputs[i]);
    if (tensor && is_floating(tensor->type) && tensor->shape.rank() == 1)
      return std::array{node.inputs[i], node.inputs[1 - i]};
  }
  return {};
}

// Activations, as products of x and a function of it

// The other factor is `f` of x, where x is one of two.
template <class F>
std::optional<std::string> other_of(const NodeProduct& product, F f) {
  if (product.factors.size() != 2 || !product.known.empty()) return {};
  for (size_t i = 0; i < 2; ++i)
    if (f(product.factors[i], product.factors[1 - i])) return product.factors[i];
  return {};
}

// value = factor * x
bool is_multiple(NodeMatch& match, const std::string& value, const std::string& x, double factor) {
  if (value == x) return is_near(factor, 1);
  const NodeProduct product = product_of(match, value);
  return product.factors == std::vector{x} && product.known.empty() &&
         is_near(product.number, factor);
}

// x^power, as a power or a product
bool is_power(NodeMatch& match, const std::string& value, const std::string& x, int power) {
  if (const OnnxNode* const node = match.take(value, "Pow"))
    return node->inputs[0] == x && match.list.number(node->inputs[1]) == double(power);
  const NodeProduct product = product_of(match, value);
  return product.factors == std::vector<std::string>(size_t(power), x) && product.known.empty() &&
         is_near(product.number, 1);
}

// factor * x^power, where x^power may be a node of its own
bool is_multiple_of_power(NodeMatch& match, const std::string& value, const std::string& x,
                          int power, double factor) {
  const NodeProduct product = product_of(match, value);
  if (!is_near(product.number, factor) || !product.known.empty()) return false;
  if (product.factors.size() == 1) return is_power(match, product.factors[0], x, power);
  int found = 0;
  for (const std::string& each : product.factors) {
    if (each == x) ++found;
    else if (found += 2; !is_power(match, each, x, 2)) return false;
  }
  return found == power;
}

// factor * (x + 0.044715 x^3), in one of its forms
bool is_cubic(NodeMatch& match, const std::string& value, const std::string& x, double factor) {
  constexpr double cube = 0.044715;
  const NodeProduct product = product_of(match, value);
  if (!product.known.empty()) return false;
  if (product.factors.size() == 1) {
    const OnnxNode* const sum = match.take(product.factors[0], "Add");
    if (!sum || !is_near(product.number, factor)) return false;
    for (size_t i = 0; i < 2; ++i) {
      NodeMatch tried = match;
      if (sum->inputs[i] != x || !is_multiple_of_power(tried, sum->inputs[1 - i], x, 3, cube))
        continue;
      match.nodes = tried.nodes;
      return true;
    }
    return false;
  }
  // x * (a + b x^2)
  for (size_t i = 0; product.factors.size() == 2 && i < 2; ++i) {
    if (product.factors[1 - i] != x) continue;
    const OnnxNode* const sum = match.take(product.factors[i], "Add");
    for (size_t k = 0; sum && k < 2; ++k) {
      const auto a = match.list.number(sum->inputs[k]);
      if (!a || !is_near(*a * product.number, factor)) continue;
      return is_multiple_of_power(match, sum->inputs[1 - k], x, 2, factor * cube / product.number);
    }
  }
  return false;
}

// 1 + f(inner)
std::optional<std::string> one_more(NodeMatch& match, const std::string& value,
                                    std::string_view f) {
  const OnnxNode* const sum = match.take(value, "Add");
  const auto inner = sum ? match.beside(*sum, 1) : std::nullopt;
  const OnnxNode* const node = inner ? match.take(*inner, f) : nullptr;
  if (!node) return {};
  return node->inputs[0];
}

// clip(x + 3, 0, 6)
bool is_clip_of(NodeMatch& match, const std::string& value, const std::string& x) {
  const NodeList& list = match.list;
  std::string inner;
  if (const OnnxNode* const clip = match.take(value, "Clip")) {
    const auto bound = [&](const char* attribute, size_t i) -> std::optional<double> {
      if (list.opset() < 11)
        return clip->has(attribute) ? std::optional(clip->number(attribute, 0)) : std::nullopt;
      return i < clip->inputs.size() ? list.number(clip->inputs[i]) : std::nullopt;
    };
    if (bound("min", 1) != 0.0 || bound("max", 2) != 6.0) return false;
    inner = clip->inputs[0];
  } else {
    // min(max(x + 3, 0), 6), in one order or the other
    for (const auto& [outer_op, outer_bound, inner_op, inner_bound] :
         {std::tuple{"Min", 6.0, "Max", 0.0}, std::tuple{"Max", 0.0, "Min", 6.0}}) {
      NodeMatch tried = match;
      const OnnxNode* const outer = tried.take(value, outer_op);
      const auto between = outer ? tried.beside(*outer, outer_bound) : std::nullopt;
      const OnnxNode* const other = between ? tried.take(*between, inner_op) : nullptr;
      const auto found = other ? tried.beside(*other, inner_bound) : std::nullopt;
      if (!found) continue;
      match.nodes = tried.nodes;
      inner = *found;
      break;
    }
    if (inner.empty()) return false;
  }
  const OnnxNode* const sum = match.take(inner, "Add");
  return sum && match.beside(*sum, 3) == x;
}

// The operand x of clip(x + 3, 0, 6), if the value is that.
std::optional<std::string> clipped(NodeMatch& match, const std::string& value) {
  // x is the other operand of the sum, which a look at the nodes behind tells.
  std::string at = value;
  for (int depth = 0; depth < 3; ++depth) {
    const auto node = match.list.giver(at);
    if (!node) return {};
    const OnnxNode& given = match.list[*node];
    if (given.op == "Add") {
      const auto x = match.beside(given, 3);
      if (!x || !is_clip_of(match, value, *x)) return {};
      return x;
    }
    if (given.inputs.empty()) return {};
    at = match.list.number(given.inputs[0]) && given.inputs.size() > 1 ? given.inputs[1]
                                                                       : given.inputs[0];
  }
  return {};
}

struct FoundActivation {
  const char* op;
  std::optional<std::string> x;
  const char* approximate = nullptr;
};

// The activation that the product is, with what it is of.
FoundActivation activation_of(NodeMatch& match) {
  const std::string& result = match.root().outputs[0];
  const NodeProduct product = product_of(match, result, true);
  const std::set<size_t> own = match.nodes;
  const double factor = product.number;
  const auto is = [&](auto f) {
    return other_of(product, [&](const std::string& x, const std::string& other) {
      match.nodes = own;
      return f(x, other);
    });
  };
  if (is_near(factor, 1)) {
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const OnnxNode* const node = match.take(other, "Sigmoid");
          return node && node->inputs[0] == x;
        }))
      return {"Silu", x};
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const OnnxNode* const tanh = match.take(other, "Tanh");
          const OnnxNode* const node = tanh ? match.take(tanh->inputs[0], "Softplus") : nullptr;
          return node && node->inputs[0] == x;
        }))
      return {"Mish", x};
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const OnnxNode* const node = match.take(other, "HardSigmoid");
          return node && node->inputs[0] == x && is_near(node->number("alpha", 0.2), 1.0 / 6) &&
                 is_near(node->number("beta", 0.5), 0.5);
        }))
      return {"HardSwish", x};
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const OnnxNode* const node = match.take(other, "Sigmoid");
          return node && is_cubic(match, node->inputs[0], x, 2 * std::sqrt(2 / std::numbers::pi));
        }))
      return {"Gelu", x, "tanh"};
  }
  if (is_near(factor, 0.5)) {
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const auto inner = one_more(match, other, "Erf");
          return inner && is_multiple(match, *inner, x, 1 / std::numbers::sqrt2);
        }))
      return {"Gelu", x, "none"};
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          const auto inner = one_more(match, other, "Tanh");
          return inner && is_cubic(match, *inner, x, std::sqrt(2 / std::numbers::pi));
        }))
      return {"Gelu", x, "tanh"};
  }
  if (is_near(factor, 1.0 / 6)) {
    if (const auto x = is([&](const std::string& x, const std::string& other) {
          return is_clip_of(match, other, x);
        }))
      return {"HardSwish", x};
    if (product.factors.size() == 1 && product.known.empty()) {
      match.nodes = own;
      return {"HardSigmoid", clipped(match, product.factors[0])};
    }
  }
  return {"", {}};
}

// Noise

// The sizes of noise, and with which probability it is 1.
struct NodeNoise {
  std::string like, shape;  // one of the two
  double keep;
};

// Uniform numbers between 0 and 1.
bool find_uniform(NodeMatch& match, const std::string& value, NodeNoise& noise) {
  const OnnxNode* node = match.take(value, "RandomUniformLike");
  if (!node || node->number("low", 0) != 0 || node->number("high", 1) != 1) return false;
  noise.like = node->inputs[0];
  NodeMatch tried = match;
  if (const OnnxNode* const made = tried.take(noise.like, "ConstantOfShape")) {
    noise.shape = made->inputs[0];
    noise.like.clear();
    match.nodes = tried.nodes;
  } else if (const OnnxNode* const grown = tried.take(noise.like, "Expand")) {
    if (!match.list.number(grown->inputs[0])) return true;
    noise.shape = grown->inputs[1];
    noise.like.clear();
    match.nodes = tried.nodes;
  }
  return true;
}

// Numbers that are 1 with probability keep, and else 0.
std::optional<NodeNoise> noise_of(NodeMatch& match, std::string value) {
  NodeNoise noise{};
  while (const OnnxNode* const node = match.take(value, "Cast")) value = node->inputs[0];
  if (const OnnxNode* const less = match.take(value, "Less")) {
    const auto keep = match.list.number(less->inputs[1]);
    if (!keep || !find_uniform(match, less->inputs[0], noise)) return {};
    noise.keep = *keep;
    return noise;
  }
  // floor(uniform + keep)
  const OnnxNode* const floor = match.take(value, "Floor");
  const OnnxNode* const sum = floor ? match.take(floor->inputs[0], "Add") : nullptr;
  for (size_t i = 0; sum && i < 2; ++i) {
    const auto keep = match.list.number(sum->inputs[i]);
    if (!keep || !find_uniform(match, sum->inputs[1 - i], noise)) continue;
    noise.keep = *keep;
    return noise;
  }
  return {};
}

}  // namespace

bool detail::fuse_norm(NodeList& list, size_t last) {
  NodeMatch match(list, last);
  OnnxNode by;
  std::string scale, bias;
  std::string core = list[last].outputs[0];
  if (const auto found = list[last].op == "Add" ? weighted(list, list[last]) : std::nullopt) {
    bias = (*found)[0];
    core = (*found)[1];
  }
  const auto product = list.giver(core);
  if (product && list[*product].op == "Mul")
    if (const auto found = weighted(list, list[*product])) {
      match.nodes.insert(*product);
      scale = (*found)[0];
      core = (*found)[1];
    }
  if (!bias.empty() && scale.empty()) return false;
  const auto norm = norm_of(match, core);
  if (!norm || (!norm->centres && !bias.empty()) || !match.is_closed()) return false;
  by.op = norm->centres ? "LayerNorm" : "RmsNorm";
  by.inputs = {norm->x};
  if (!scale.empty()) by.inputs.push_back(scale);
  if (!bias.empty()) by.inputs.push_back(bias);
  by.attributes = {{"axes", norm->axes}, {"epsilon", norm->eps}};
  list.replace(match.nodes, last, std::move(by));
  return true;
}

bool detail::fuse_activation(NodeList& list, size_t last) {
  const std::string& op = list[last].op;
  if (op != "Mul" && op != "Div") return false;
  NodeMatch match(list, last);
  const FoundActivation found = activation_of(match);
  if (!found.x || !match.is_closed()) return false;
  OnnxNode by{.op = found.op,
              .domain = {},
              .name = {},
              .inputs = {*found.x},
              .outputs = {},
              .attributes = {}};
  if (found.approximate) by.attributes = {{"approximate", std::string(found.approximate)}};
  list.replace(match.nodes, last, std::move(by));
  return true;
}

bool detail::fuse_noise(NodeList& list, size_t last) {
  if (list[last].op != "Mul") return false;
  NodeMatch match(list, last);
  const NodeProduct product = product_of(match, list[last].outputs[0], true);
  const std::set<size_t> own = match.nodes;
  const auto try_as = [&](size_t i) {
    match.nodes = own;
    const auto noise = noise_of(match, product.factors[i]);
    if (!noise || !is_near(product.number * noise->keep, 1) || !match.is_closed()) return false;
    OnnxNode by{.op = "Noise",
                .domain = {},
                .name = {},
                .inputs = {product.factors[1 - i]},
                .outputs = {},
                .attributes = {}};
    by.inputs.push_back(noise->like);
    by.inputs.push_back(noise->shape);
    // 1 - 0.8 as in float32 is 0.2.
    by.attributes = {{"p", std::round((1 - noise->keep) * 1e7) / 1e7}};
    list.replace(match.nodes, last, std::move(by));
    return true;
  };
  return product.factors.size() == 2 && product.known.empty() && (try_as(0) || try_as(1));
}

}  // namespace accrue
