// The passes put together what exporters take apart, where nothing else takes a part of it. The
// result is the same.

#include "onnx/reader/passes.h"

#include <numbers>

#include "tests/onnx/described_file.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {
namespace onnx_passes {

using Names = std::vector<std::string>;
using Attributes = std::map<std::string, OnnxAttribute>;

// A part of a network that takes 'x' [N, 2, 6, 4], and tells a result within it.
struct Part {
  std::string result, within;
};
using Describe = Part (*)(DescribedFile& file);

const Shape sample{2, 6, 4};

std::string of_two(DescribedFile& f, const std::string& op, const std::string& a,
                   const std::string& b) {
  return f.node(op, {a, b});
}
std::string mul(DescribedFile& f, const std::string& a, const std::string& b) {
  return of_two(f, "Mul", a, b);
}
std::string add(DescribedFile& f, const std::string& a, const std::string& b) {
  return of_two(f, "Add", a, b);
}

Part layer_norm(DescribedFile& f) {
  f.initializer(onnx_tensor("scale", OnnxType::f64, {4}, {1, 0.5, 2, 1.5}));
  f.initializer(onnx_tensor("bias", OnnxType::f64, {4}, {0.25, 0, -1, 1}));
  const Attributes axes{{"axes", std::vector<int64_t>{-1}}};
  const std::string d = of_two(f, "Sub", "x", f.node("ReduceMean", {"x"}, axes));
  const std::string var = f.node("ReduceMean", {of_two(f, "Pow", d, f.number(2))}, axes);
  const std::string root = f.node("Sqrt", {add(f, var, f.number(1e-5))});
  const std::string y = of_two(f, "Div", d, root);
  return {add(f, mul(f, y, "scale"), "bias"), var};
}

// A mean over all places of an image, which is no layer norm of the last dimension.
Part norm_of_images(DescribedFile& f) {
  const Attributes axes{{"axes", std::vector<int64_t>{2, 3}}};
  const std::string d = of_two(f, "Sub", "x", f.node("ReduceMean", {"x"}, axes));
  const std::string var = f.node("ReduceMean", {mul(f, d, d)}, axes);
  const std::string root = f.node("Sqrt", {add(f, f.number(1e-3), var)});
  return {mul(f, d, f.node("Reciprocal", {root})), var};
}

Part linear(DescribedFile& f) {
  f.initializer(onnx_tensor("w", OnnxType::f64, {4, 3}, onnx_waves({4, 3}, 0.3)));
  f.initializer(onnx_tensor("b", OnnxType::f64, {3}, {0.25, 0, -1}));
  const std::string y = of_two(f, "MatMul", "x", "w");
  return {add(f, y, "b"), y};
}

Part linear_by_transpose(DescribedFile& f) {
  f.initializer(onnx_tensor("w", OnnxType::f64, {3, 4}, onnx_waves({3, 4}, 0.3)));
  f.initializer(onnx_tensor("b", OnnxType::f64, {3}, {0.25, 0, -1}));
  const std::string y =
      of_two(f, "MatMul", "x", f.node("Transpose", {"w"}, {{"perm", std::vector<int64_t>{1, 0}}}));
  return {add(f, "b", y), y};
}

Part rms_norm(DescribedFile& f) {
  f.initializer(onnx_tensor("scale", OnnxType::f64, {4}, {1, 0.5, 2, 1.5}));
  const std::string mean =
      f.node("ReduceMean", {mul(f, "x", "x")}, {{"axes", std::vector<int64_t>{-1}}});
  const std::string root = f.node("Sqrt", {add(f, mean, f.number(1e-6))});
  const std::string inverse = of_two(f, "Div", f.number(1), root);
  return {mul(f, "scale", mul(f, "x", inverse)), mean};
}

Part gelu(DescribedFile& f) {
  const std::string erf = f.node("Erf", {of_two(f, "Div", "x", f.number(std::numbers::sqrt2))});
  const std::string inner = add(f, erf, f.number(1));
  return {mul(f, mul(f, "x", inner), f.number(0.5)), erf};
}

Part gelu_by_tanh(DescribedFile& f) {
  const std::string cube = mul(f, "x", mul(f, "x", "x"));
  const std::string sum = add(f, "x", mul(f, f.number(0.044715), cube));
  const std::string tanh = f.node("Tanh", {mul(f, f.number(std::sqrt(2 / std::numbers::pi)), sum)});
  return {mul(f, mul(f, f.number(0.5), "x"), add(f, f.number(1), tanh)), tanh};
}

Part silu(DescribedFile& f) {
  const std::string sigmoid = f.node("Sigmoid", {"x"});
  return {mul(f, sigmoid, "x"), sigmoid};
}

Part mish(DescribedFile& f) {
  const std::string softplus = f.node("Softplus", {"x"});
  return {mul(f, "x", f.node("Tanh", {softplus})), softplus};
}

Part hard_swish(DescribedFile& f) {
  const std::string clip = f.node("Clip", {add(f, "x", f.number(3)), f.number(0), f.number(6)});
  return {of_two(f, "Div", mul(f, "x", clip), f.number(6)), clip};
}

Part hard_sigmoid(DescribedFile& f) {
  const std::string low = of_two(f, "Max", add(f, "x", f.number(3)), f.number(0));
  return {of_two(f, "Div", of_two(f, "Min", low, f.number(6)), f.number(6)), low};
}

// q, k and v are multiples of x. The mask, where there is one, is added to the scores.
Part attend(DescribedFile& f, const std::string& mask, bool clears_nan) {
  const std::string q = mul(f, f.node("Sin", {"x"}), f.number(std::sqrt(0.5)));
  const std::string turned =
      f.node("Transpose", {"x"}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const std::string k = mul(f, turned, f.number(std::sqrt(0.5)));
  std::string scores = of_two(f, "MatMul", q, k);
  if (!mask.empty()) scores = add(f, scores, mask);
  const std::string softmax = f.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  std::string p = softmax;
  if (clears_nan) p = f.node("Where", {f.node("IsNaN", {p}), f.number(0), p});
  return {of_two(f, "MatMul", p, f.node("Cos", {"x"})), softmax};
}

Part attention(DescribedFile& f) { return attend(f, "", false); }

// A row sees what is not behind it.
Part causal_attention(DescribedFile& f) {
  std::vector<double> mask;
  for (int t = 0; t < 6; ++t)
    for (int s = 0; s < 6; ++s) mask.push_back(s <= t ? 0 : -HUGE_VAL);
  f.initializer(onnx_tensor("mask", OnnxType::f64, {6, 6}, mask));
  return attend(f, "mask", true);
}

Part masked_attention(DescribedFile& f) {
  f.initializer(onnx_tensor("mask", OnnxType::f64, {6, 6}, onnx_waves({6, 6}, 1)));
  return attend(f, "mask", false);
}

struct Row {
  const char* name;
  Describe describe;
  const char* op;  // of the node that is made
};

OnnxNetwork network(Describe describe, bool shows_part, std::vector<OnnxNode>* nodes = nullptr) {
  DescribedFile file(13);
  file.input("x", sample);
  const Part part = describe(file);
  std::set<std::string> outputs{part.result};
  file.output(part.result);
  if (shows_part) {
    file.output(part.within);
    outputs.insert(part.within);
  }
  if (nodes) *nodes = put_together(file.file()->nodes, *file.file(), outputs);
  return OnnxNetwork(file.file());
}

}  // namespace onnx_passes
}  // namespace

TEST_CASE("What exporters took apart is put together again and gives the same", "[onnx-reader]") {
  using namespace onnx_passes;
  const std::vector<Row> rows{{"layer norm", layer_norm, "LayerNorm"},
                              {"linear", linear, "Linear"},
                              {"linear by a transpose", linear_by_transpose, "Linear"},
                              {"norm of images", norm_of_images, "LayerNorm"},
                              {"norm by root mean squares", rms_norm, "RmsNorm"},
                              {"gelu", gelu, "Gelu"},
                              {"gelu by tanh", gelu_by_tanh, "Gelu"},
                              {"silu", silu, "Silu"},
                              {"mish", mish, "Mish"},
                              {"hard swish", hard_swish, "HardSwish"},
                              {"hard sigmoid", hard_sigmoid, "HardSigmoid"},
                              {"attention", attention, "Attention"},
                              {"causal attention", causal_attention, "Attention"},
                              {"attention with a mask", masked_attention, "Attention"}};
  const Tensor x = onnx_input({3, 2, 6, 4});
  for (const Row& row : rows) {
    INFO(row.name);
    std::vector<OnnxNode> together, apart;
    const OnnxNetwork whole = network(row.describe, false, &together);
    // A part that is an output, too, stays as it is.
    const OnnxNetwork parts = network(row.describe, true, &apart);
    REQUIRE(together.back().op == row.op);
    REQUIRE(together.back().domain == "accrue");
    REQUIRE(std::ranges::none_of(apart, [&](const OnnxNode& node) { return node.op == row.op; }));
    const Tensor y = onnx_answer(whole, {x}), expected = onnx_answer(parts, {x});
    REQUIRE(y.shape() == expected.shape());
    for (int64_t i = 0; i < y.numel(); ++i)
      REQUIRE(std::abs(y.span<double>()[size_t(i)] - expected.span<double>()[size_t(i)]) < 1e-12);
  }
}

TEST_CASE("Other formulas of ONNX files stay as they are", "[onnx-reader]") {
  using namespace onnx_passes;
  const auto stays = [](Describe describe) {
    std::vector<OnnxNode> nodes;
    network(describe, false, &nodes);
    for (const OnnxNode& node : nodes) REQUIRE(node.domain.empty());
  };
  stays([](DescribedFile& f) {
    const std::string y = mul(f, "x", f.node("Sigmoid", {mul(f, "x", f.number(1.702))}));
    return Part{y, ""};
  });
  stays([](DescribedFile& f) {
    const std::string erf = f.node("Erf", {of_two(f, "Div", "x", f.number(1.4))});
    return Part{mul(f, mul(f, "x", add(f, erf, f.number(1))), f.number(0.5)), ""};
  });
  stays([](DescribedFile& f) {
    const std::string clip = f.node("Clip", {add(f, "x", f.number(2.5)), f.number(0), f.number(6)});
    return Part{of_two(f, "Div", mul(f, "x", clip), f.number(6)), ""};
  });
  // The mean of another axis is taken off, which is no part of the norm.
  std::vector<OnnxNode> nodes;
  const auto other_mean = [](DescribedFile& f) {
    const auto mean = [&](const std::string& of, int64_t axis) {
      return f.node("ReduceMean", {of}, {{"axes", std::vector<int64_t>{axis}}});
    };
    const std::string d = of_two(f, "Sub", "x", mean("x", 2));
    const std::string root = f.node("Sqrt", {add(f, mean(mul(f, d, d), 3), f.number(1e-5))});
    return Part{of_two(f, "Div", d, root), ""};
  };
  network(other_mean, false, &nodes);
  REQUIRE(nodes.back().op == "RmsNorm");
  REQUIRE(std::ranges::count(nodes, "Sub", &OnnxNode::op) == 1);
}

TEST_CASE("Noise of ONNX files is drawn by the sample", "[onnx-reader]") {
  using namespace onnx_passes;
  const auto with_noise = [](std::vector<double> sizes, bool is_floor) {
    DescribedFile f(13);
    f.input("x", {2, 3});
    f.initializer(onnx_tensor("rest", OnnxType::i64, {int64_t(sizes.size())}, sizes));
    const std::string N = f.node("Slice", {f.node("Shape", {"x"}), "from", "to"});
    f.initializer(onnx_tensor("from", OnnxType::i64, {1}, {0}));
    f.initializer(onnx_tensor("to", OnnxType::i64, {1}, {1}));
    const std::string shape = f.node("Concat", {N, "rest"}, {{"axis", int64_t{0}}});
    const std::string uniform = f.node("RandomUniformLike", {f.node("ConstantOfShape", {shape})});
    const std::string noise = is_floor
                                  ? f.node("Floor", {add(f, uniform, f.number(0.75))})
                                  : f.node("Cast", {of_two(f, "Less", uniform, f.number(0.75))},
                                           {{"to", int64_t(OnnxType::f64)}});
    f.output(mul(f, "x", of_two(f, "Div", noise, f.number(0.75))));
    return OnnxNetwork(f.file());
  };
  const Tensor x = onnx_input({40, 2, 3}, 0.1);
  for (const bool is_floor : {false, true})
    for (const auto& sizes : {std::vector<double>{1, 1}, {2, 1}, {2, 3}}) {
      const OnnxNetwork network = with_noise(sizes, is_floor);
      const Tensor y = onnx_answer(network, {x}, Pass::Mode::train);
      const Tensor kept = onnx_answer(network, {x});
      // Groups of elements that share their noise, from the last dimension on.
      const int64_t group = sizes[1] == 3 ? 1 : sizes[0] == 2 ? 3 : 6;
      int64_t dropped = 0;
      for (int64_t i = 0; i < y.numel(); ++i) {
        const auto at = size_t(i), first = size_t(i / group * group);
        const double given = x.to(Device::cpu).span<double>()[at], got = y.span<double>()[at];
        const bool is_dropped = y.span<double>()[first] == 0;
        dropped += is_dropped;
        REQUIRE(std::abs(got - (is_dropped ? 0 : given / 0.75)) < 1e-12);
        REQUIRE(kept.span<double>()[at] == given);
      }
      REQUIRE(dropped > 0.1 * double(y.numel()));
      REQUIRE(dropped < 0.45 * double(y.numel()));
    }
  REQUIRE_ERROR(
      ([] {
        DescribedFile f(13);
        f.input("x", {2, 3});
        f.initializer(onnx_tensor("one", OnnxType::f64, {1, 2, 3}, onnx_waves({6}, 0)));
        const std::string less =
            f.node("Less", {f.node("RandomUniformLike", {"one"}), f.number(0.5)});
        const std::string noise = f.node("Cast", {less}, {{"to", int64_t(OnnxType::f64)}});
        f.output(mul(f, "x", of_two(f, "Div", noise, f.number(0.5))));
        OnnxNetwork(f.file());
      })(),
      "is the same for all samples");
}

}  // namespace accrue::test
