#include "layers/graph.h"

#include <array>
#include <map>

#include "core/kernel_trace.h"
#include "core/ledger.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/losses.h"
#include "kernels/scale_add.h"
#include "kernels/step/round_copies.h"
#include "layers/layers.h"
#include "layers/self_attention.h"
#include "layers/unet.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {
namespace graphs {

using Value = Graph::Value;
using Values = std::vector<double>;

constexpr Conv2dShape same{.padding = 1};

Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  RandomStream stream(seed);
  const Tensor x = Tensor::empty(shape, dtype, Device::cpu, Category::data);
  dispatch_floating(dtype, [&]<class T>() {
    for (T& value : x.span<T>()) value = T(static_cast<Wide<T>>(stream.normal()));
  });
  return x.to(test_device());
}

std::unique_ptr<Conv2d> conv(int64_t in, int64_t out) {
  return std::make_unique<Conv2d>(in, out, 3, same);
}

std::vector<std::string> names_of(Module& model) {
  std::vector<std::string> names;
  model.visit_parameters([&](const std::string& name, Parameter&) { names.push_back(name); });
  model.visit_buffers([&](const std::string& name, Buffer&) { names.push_back(name); });
  return names;
}

// Blocks of a convolution, a norm and a residual connection, then two branches that are put
// together, a gate that is a parameter, and a head.
std::unique_ptr<Graph> residual(int blocks = 4, int64_t C = 8) {
  auto net = std::make_unique<Graph>();
  Value x = net->call(conv(3, C), net->input("images"), "stem");
  for (int i = 0; i < blocks; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    Value h = net->call(std::make_unique<GroupNorm>(2, C), x, name + ".norm");
    h = net->call(conv(C, C), net->call("relu", {h}, {}, name + ".act"), name + ".conv");
    x = net->call("add", {x, h}, {}, name);
  }
  const Value gamma = net->parameter("gamma", {1}, Init::constant(0.5));
  const Value a = net->call("max_pool2d", {x}, {{"kernel_size", 2}});
  const Value b = net->call("avg_pool2d", {x}, {{"kernel_size", 2}});
  const Value both = net->call("cat", {net->call("scale_add", {a, gamma, b}), b}, {{"dim", 1}});
  const Value features =
      net->call("flatten", {net->call("adaptive_avg_pool2d", {both}, {{"output_size", 1}})},
                {{"start_dim", 1}});
  net->output(net->call(std::make_unique<Linear>(2 * C, 5), features, "head"));
  return net;
}

// The network of residual(), in plain code.
class Residual : public Layer {
 public:
  Residual(int blocks, int64_t C) : stem_(3, C, 3, same), head_(2 * C, 5) {
    declare("stem", stem_);
    for (int i = 0; i < blocks; ++i) {
      norms_.push_back(std::make_unique<GroupNorm>(2, C));
      convs_.push_back(conv(C, C));
      declare(fmt::format("blocks.{}.norm", i), *norms_.back());
      declare(fmt::format("blocks.{}.conv", i), *convs_.back());
    }
    declare("", gate_);
    declare("head", head_);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    x = stem_(std::move(x), pass);
    for (size_t i = 0; i < norms_.size(); ++i)
      x = add(x, (*convs_[i])(relu((*norms_[i])(x, pass)), pass));
    const Tensor a = max_pool2d(x, {2}), b = avg_pool2d(x, {2});
    const Tensor y = global_avg_pool2d(concat({scale_add(a, gate_.gamma.tensor, b), b}, 1));
    return head_(y, pass);
  }
  std::string describe() const override { return "residual"; }

 private:
  struct Gate : Module {
    Gate() { declare("gamma", gamma); }
    std::string describe() const override { return "gate"; }
    Parameter gamma{{1}, Init::constant(0.5), {}};
  };
  Conv2d stem_;
  std::vector<std::unique_ptr<GroupNorm>> norms_;
  std::vector<std::unique_ptr<Conv2d>> convs_;
  Gate gate_;
  Linear head_;
};

struct Outcome {
  Values answer, gradients;
  size_t peak;
};

Outcome outcome_of(Layer& model, const Tensor& x, const Pass& pass = {},
                   const std::vector<int64_t>& split = {}) {
  const Parameters parameters = place(model, x.dtype(), test_device(), 7);
  const auto loss_of = [&](const Tensor& part) {
    const Tensor y = model(part, pass);
    return mse_loss(y, Tensor::full(y.shape(), 0.25, y.dtype(), test_device()));
  };
  Outcome outcome;
  {
    const NoGrad no_grad;
    outcome.answer = to_doubles(model(x, pass));
  }
  ledger(test_device()).reset_peak();
  const size_t before = ledger(test_device()).current().total();
  if (split.empty()) backward(loss_of(x));
  int64_t begin = 0;
  for (const int64_t n : split) {
    backward(loss_of(x.slice(begin, begin + n)), double(n) / double(x.size(0)));
    begin += n;
  }
  outcome.peak = ledger(test_device()).peak().total() - before;
  outcome.gradients = to_doubles(parameters.gradients());
  return outcome;
}

}  // namespace graphs
using namespace graphs;
}  // namespace

TEST_CASE("a graph computes what plain code does, in the same memory", "[graph]") {
  const auto graph = residual();
  Residual plain(4, 8);
  REQUIRE(names_of(*graph) == names_of(plain));
  const Tensor x = random({3, 3, 8, 8}, 1);
  const Outcome expected = outcome_of(plain, x), found = outcome_of(*graph, x);
  REQUIRE(found.answer == expected.answer);
  REQUIRE(found.gradients == expected.gradients);
  REQUIRE(found.peak <= expected.peak);
}

TEST_CASE("attention and a U-Net as graphs are the layers", "[graph]") {
  const Tensor x = random({3, 8, 8, 8}, 15);
  {
    Graph net;
    const Value in = net.input(), gamma = net.parameter("gamma", {1}, Init::constant(0));
    const auto project = [&](int64_t out, std::string name) {
      return net.call(std::make_unique<Conv2d>(8, out, 1), in, std::move(name));
    };
    const Value q = project(1, "query"), k = project(1, "key"), v = project(8, "value");
    net.output(net.call("scale_add", {in, gamma, net.call("self_attention", {q, k, v})}));
    SelfAttention layer(8);
    const Parameters of_graph = place(net, DType::f64, test_device(), 1),
                     of_layer = place(layer, DType::f64, test_device(), 1);
    for (const Parameters::Entry& entry : of_layer.entries()) {
      const auto& entries = of_graph.entries();
      const Tensor& same_one =
          std::ranges::find(entries, entry.name, &Parameters::Entry::name)->tensor;
      if (entry.name == "gamma") entry.tensor.fill(0.5);
      same_one.copy_from(entry.tensor);
    }
    const auto gradients_of = [&](const Layer& model, const Parameters& parameters) {
      const Tensor y = model(x);
      backward(mse_loss(y, Tensor::full(y.shape(), 1, DType::f64, test_device())));
      std::map<std::string, Values> gradients{{"y", to_doubles(y)}};
      for (const Parameters::Entry& entry : parameters.entries())
        gradients[entry.name] = to_doubles(grad(entry.tensor));
      return gradients;
    };
    REQUIRE(gradients_of(net, of_graph) == gradients_of(layer, of_layer));
  }
  Graph net;
  const auto doubled = [&](Value h, int64_t in, int64_t out, const std::string& name) {
    for (const int i : {0, 3}) {
      h = net.call(
          std::make_unique<Conv2d>(i ? out : in, out, 3, same, InitScheme::kaiming, Bias::none), h,
          fmt::format("{}.{}", name, i));
      h = net.call(std::make_unique<GroupNorm>(8, out, Activation::relu), h,
                   fmt::format("{}.{}", name, i + 1));
    }
    return h;
  };
  const Value fine = doubled(net.input(), 8, 8, "encoder.0");
  const Value coarse =
      doubled(net.call("max_pool2d", {fine}, {{"kernel_size", 2}}), 8, 16, "encoder.1");
  const Value up =
      net.call(std::make_unique<ConvTranspose2d>(16, 8, 2, ConvTranspose2dShape{.stride = 2}),
               coarse, "up.0");
  const Value y = doubled(net.call("cat", {fine, up}, {{"dim", 1}}), 16, 8, "decoder.0");
  net.output(net.call(std::make_unique<Conv2d>(8, 1, 1), y, "head"));
  UNet unet(std::array<int64_t, 2>{8, 16}, 0, InitScheme::kaiming, 8);
  REQUIRE(names_of(net) == names_of(unet));
  const Outcome expected = outcome_of(unet, x), found = outcome_of(net, x, {}, {1, 2});
  // UNet multiplies the decoder's inputs in two parts.
  REQUIRE(largest_difference(found.answer, expected.answer) < 1e-13);
  REQUIRE(largest_difference(found.gradients, expected.gradients) < 1e-13);
}

TEST_CASE("a chain as a graph has the names and bits of a Sequential", "[graph]") {
  Graph graph;
  Sequential chain;
  Value x = graph.input();
  const auto both = [&](const auto& make) {
    x = graph.call(make(), x);
    chain.append(make());
  };
  both([] { return conv(3, 4); });
  both([] { return std::make_unique<GroupNorm>(2, 4, Activation::relu); });
  both([] { return std::make_unique<MaxPool2d>(Pool2dShape{2}); });
  both([] { return std::make_unique<Dropout>(0.5); });
  both([] { return std::make_unique<Flatten>(); });
  both([] { return std::make_unique<Linear>(64, 3); });
  graph.output(x);
  REQUIRE(names_of(graph) == names_of(chain));
  REQUIRE(graph.is_random());
  const Tensor images = random({2, 3, 8, 8}, 2);
  const Pass pass{.seed = 3,
                  .samples = Tensor::from(std::vector<int32_t>{4, 9}, {2}, test_device())};
  const Outcome expected = outcome_of(chain, images, pass), found = outcome_of(graph, images, pass);
  REQUIRE(found.answer == expected.answer);
  REQUIRE(found.gradients == expected.gradients);
  REQUIRE(found.peak == expected.peak);
}

TEST_CASE("a graph gives the same gradients for every split and for every Recompute", "[graph]") {
  const Tensor x = random({8, 3, 8, 8}, 3);
  const auto run = [&](const Pass& pass, const std::vector<int64_t>& split) {
    return outcome_of(*residual(9), x, pass, split);
  };
  const Outcome whole = run({}, {});
  const double largest = largest_difference(whole.gradients, Values(whole.gradients.size()));
  for (const auto& split : std::vector<std::vector<int64_t>>{{3, 3, 2}, std::vector<int64_t>(8, 1)})
    REQUIRE(largest_difference(run({}, split).gradients, whole.gradients) < 1e-13 * largest);
  size_t peak = whole.peak;
  for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
    const Outcome again = run({.recompute = recompute}, {});
    REQUIRE(again.answer == whole.answer);
    REQUIRE(again.gradients == whole.gradients);
    // Beside the scratch of convolutions on cuda these activations are little.
    if (test_device() == Device::cpu) REQUIRE(3 * again.peak < 2 * peak);
  }
}

TEST_CASE("segments of a graph have about equal weights", "[graph]") {
  const auto peak_of = [](bool is_weighed) {
    Graph net;
    Value x = net.input();
    // The first half has 16 times the memory of the second.
    for (int i = 0; i < 16; ++i) {
      x = net.call(conv(4, 4), x);
      if (is_weighed) net.weigh(x, i < 8 ? 16 : 1);
      if (i == 7) x = net.call("avg_pool2d", {x}, {{"kernel_size", 4}});
      if (is_weighed && i == 7) net.weigh(x, 1);
    }
    net.output(x);
    return outcome_of(net, random({2, 4, 32, 32}, 4), {.recompute = Recompute::sqrt}).peak;
  };
  REQUIRE(peak_of(true) < peak_of(false));
}

TEST_CASE("what needs no gradient crosses the cuts of a graph", "[graph]") {
  // Every block reads a mask, which is computed from the input.
  const auto make = [] {
    auto net = std::make_unique<Graph>();
    const Value images = net->input();
    const Value mask = net->call("sigmoid", {net->call("scale", {images}, {{"factor", 2.0}})});
    Value x = images;
    for (int i = 0; i < 4; ++i)
      x = net->call("mul", {net->call("relu", {net->call(conv(4, 4), x)}), mask});
    net->output(x);
    return net;
  };
  const Tensor x = random({2, 4, 8, 8}, 5);
  const Outcome kept = outcome_of(*make(), x);
  for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
    const Outcome again = outcome_of(*make(), x, {.recompute = recompute});
    REQUIRE(again.gradients == kept.gradients);
    REQUIRE(again.peak < kept.peak);
  }
}

TEST_CASE("outputs on the way and values that a call takes twice outlive their uses", "[graph]") {
  const auto make = [](bool has_two) {
    auto net = std::make_unique<Graph>();
    Value x = net->input();
    std::vector<Value> all;
    for (int i = 0; i < 4; ++i) {
      const Value h = net->call("gelu", {net->call(conv(2, 2), x)});
      x = net->call("mul", {h, h});
      all.push_back(x);
    }
    if (has_two) net->output(all[1]);
    net->output(x);
    return net;
  };
  const Tensor x = random({2, 2, 4, 4}, 14);
  for (const bool has_two : {false, true}) {
    std::vector<Values> gradients;
    for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all}) {
      const auto net = make(has_two);
      const Parameters parameters = place(*net, DType::f64, test_device(), 1);
      const std::vector<Tensor> y = net->run({x}, {.recompute = recompute});
      REQUIRE(y.size() == (has_two ? 2 : 1));
      const Tensor target = Tensor::full(y[0].shape(), 1, DType::f64, test_device());
      backward(has_two ? add(mse_loss(y[0], target), mse_loss(y[1], target))
                       : mse_loss(y[0], target));
      gradients.push_back(to_doubles(parameters.gradients()));
    }
    REQUIRE(gradients[1] == gradients[0]);
    REQUIRE(gradients[2] == gradients[0]);
  }
}

TEST_CASE("a graph of one block leaves Recompute to its layers", "[graph]") {
  const auto make = [] {
    auto chain = std::make_unique<Sequential>();
    for (int i = 0; i < 6; ++i) {
      chain->append(conv(4, 4));
      chain->add<Gelu>();
    }
    return chain;
  };
  Graph net;
  net.output(net.call(make(), net.input(), "body"));
  const Tensor x = random({2, 4, 16, 16}, 6);
  const Pass pass{.recompute = Recompute::all};
  const Outcome expected = outcome_of(*make(), x, pass), found = outcome_of(net, x, pass);
  REQUIRE(found.gradients == expected.gradients);
  REQUIRE(found.peak == expected.peak);
}

TEST_CASE("parameters of a graph are declared at their first use, and shared", "[graph]") {
  Graph net;
  const Value x = net.input();
  const Value late = net.parameter("late", {4}, Init::constant(2));
  const Value early = net.parameter("block.early", {4}, Init::constant(1));
  net.parameter("unused", {4}, Init::constant(0));
  const Layer& shared = net.add(std::make_unique<Linear>(4, 4), "shared");
  Value y = net.call("layer_norm", {x, early}, {{"normalized_shape", 4}});
  y = net.call(shared, net.call("relu", {net.call(shared, y)}));
  const Value none;
  net.output(net.call("layer_norm", {y, none, late}, {{"normalized_shape", 4}}));
  REQUIRE(names_of(net) ==
          std::vector<std::string>{"block.early", "shared.weight", "shared.bias", "late"});
  const Parameters parameters =
      place(net, DType::f64, test_device(), 1, GradientStorage::arena, {"block"});
  REQUIRE(parameters.fixed_entries().size() == 1);
  const Tensor in = random({3, 4}, 8);
  const Tensor w = parameters.all_entries()[1].tensor, b = parameters.all_entries()[2].tensor,
               beta = parameters.all_entries()[3].tensor,
               gamma = parameters.all_entries()[0].tensor;
  const auto plain = [&] {
    return layer_norm(linear(relu(linear(layer_norm(in, gamma, {}), w, b)), w, b), {}, beta);
  };
  const auto gradients_of = [&](const Tensor& y) {
    parameters.zero_grad();
    backward(mse_loss(y, Tensor::full(y.shape(), 1, DType::f64, test_device())));
    return to_doubles(parameters.gradients());
  };
  REQUIRE(to_doubles(net(in)) == to_doubles(plain()));
  REQUIRE(gradients_of(net(in)) == gradients_of(plain()));
  REQUIRE(net.describe() ==
          "x: input\n"
          "late: parameter [4]\n"
          "block.early: parameter [4]\n"
          "%1 = layer_norm(x, block.early, normalized_shape=(4,))\n"
          "%2 = shared(%1): linear 4 -> 4\n"
          "%3 = relu(%2)\n"
          "%4 = shared(%3): linear 4 -> 4\n"
          "%5 = layer_norm(%4, None, late, normalized_shape=(4,))\n"
          "return %5\n");
}

TEST_CASE("a graph has several inputs and outputs, and constants", "[graph]") {
  Graph net;
  const Value a = net.input("a"), b = net.input("b");
  const Value c = net.constant("c", {1, 2, 3, 4, 5, 6}, {2, 3});
  const Value sum = net.call("add", {a, c});
  net.output(net.call("mul", {sum, b}));
  net.output(sum);
  net.output(net.call(std::make_unique<Linear>(3, 1), a, "head"));
  REQUIRE((net.inputs() == 2 && net.outputs() == 3));
  const Parameters parameters = place(net, DType::f64, test_device(), 1);
  REQUIRE(parameters.count() == 4);
  const Tensor x = random({2, 3}, 9), y = random({2, 3}, 10);
  const std::vector<Tensor> found = net.run({x, y}, {});
  const Tensor numbers = Tensor::from(Values{1, 2, 3, 4, 5, 6}, {2, 3}, test_device());
  REQUIRE(to_doubles(found[1]) == to_doubles(add(x, numbers)));
  REQUIRE(to_doubles(found[0]) == to_doubles(mul(add(x, numbers), y)));
  REQUIRE(found[2].shape() == Shape{2, 1});
  REQUIRE_ERROR(net(x), "a network of 2 inputs and 3 outputs is run as a layer");
  REQUIRE_ERROR(net.run({x}, {}), "a network of 2 inputs runs on 1 tensor");
}

TEST_CASE("sizes of a graph's tensors may be multiples of its samples", "[graph]") {
  Graph net;
  const Value x = net.input();
  const Value rows =
      net.call("reshape", {x}, {{"shape", Extents{Extent::of_samples(2), Extent(-1)}}});
  net.output(net.call("reshape", {rows}, {{"shape", Extents{Extent::of_samples(), 3, 4}}}));
  for (const int64_t N : {1, 5}) {
    const Tensor in = random({N, 12}, 11);
    REQUIRE(net(in).shape() == Shape{N, 3, 4});
    REQUIRE(to_doubles(net(in)) == to_doubles(in));
  }
}

TEST_CASE("a batch norm as an op of a graph is that of the layer", "[graph]") {
  const auto make = [](bool as_op) {
    auto net = std::make_unique<Graph>();
    const Value x = net->call(conv(2, 4), net->input(), "conv");
    if (!as_op) {
      net->output(net->call(std::make_unique<BatchNorm>(4), x, "bn"));
      return net;
    }
    const Value gamma = net->parameter("bn.weight", {4}, Init::constant(1)),
                beta = net->parameter("bn.bias", {4}, Init::constant(0)),
                mean = net->buffer("bn.running_mean", {4}, Init::constant(0)),
                var = net->buffer("bn.running_var", {4}, Init::constant(1));
    net->output(net->call("batch_norm", {x, mean, var, gamma, beta}, {}, "bn"));
    return net;
  };
  const Tensor x = random({3, 2, 4, 4}, 12);
  for (const std::vector<std::string>& freeze : {std::vector<std::string>{}, {"bn"}}) {
    std::vector<Values> found;
    for (const bool as_op : {false, true}) {
      const auto net = make(as_op);
      const Parameters parameters =
          place(*net, DType::f64, test_device(), 1, GradientStorage::arena, freeze);
      const Tensor y = (*net)(x);
      backward(mse_loss(y, Tensor::full(y.shape(), 1, DType::f64, test_device())));
      found.push_back(to_doubles(parameters.gradients()));
      found.push_back(to_doubles(parameters.buffers()));
      found.push_back(to_doubles((*net)(x, Pass::eval())));
    }
    for (size_t i = 0; i < 3; ++i) REQUIRE(found[i] == found[i + 3]);
  }
}

namespace {
namespace graphs {

class Kernels : public KernelTrace {
 public:
  void add(const KernelCall& call) override { ++calls[std::string(call.name())]; }
  std::map<std::string, int> calls;
};

// Batch norms, as ops and as a layer, and sums, each with a relu. One sum has another reader and
// one is of two shapes.
std::unique_ptr<Graph> with_relus() {
  auto net = std::make_unique<Graph>();
  const auto norm = [&](Value x, const std::string& name) {
    const Value gamma = net->parameter(name + ".weight", {4}, Init::constant(1)),
                beta = net->parameter(name + ".bias", {4}, Init::constant(0)),
                mean = net->buffer(name + ".running_mean", {4}, Init::constant(0)),
                var = net->buffer(name + ".running_var", {4}, Init::constant(1));
    return net->call("batch_norm", {x, mean, var, gamma, beta}, {}, name);
  };
  const auto relu = [&](Value x) { return net->call("relu", {x}); };
  const Value x = relu(norm(net->call(conv(2, 4), net->input(), "conv1"), "bn1"));
  Value h = net->call(std::make_unique<BatchNorm>(4), net->call(conv(4, 4), x, "conv2"), "bn2");
  h = net->call(std::make_unique<Relu>(), h);
  h = norm(net->call(conv(4, 4), h, "conv3"), "bn3");
  const Value y = relu(net->call("add", {h, x}));
  const Value z = net->call("add", {net->call(conv(4, 4), y, "conv4"), y});
  const Value shift = net->parameter("shift", {4, 1, 1}, Init::constant(0.25));
  net->output(net->call("add", {relu(net->call("add", {z, shift})), relu(z)}));
  return net;
}

}  // namespace graphs
}  // namespace

TEST_CASE("a graph computes a batch norm or a sum and its relu by one kernel", "[graph]") {
  const Tensor x = random({3, 2, 6, 6}, 12);
  for (const auto mode : {Pass::Mode::train, Pass::Mode::eval}) {
    std::vector<Values> found;
    for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all})
      for (const bool is_observed : {true, false}) {
        const auto net = graphs::with_relus();
        const Parameters parameters = place(*net, DType::f64, test_device(), 1);
        Pass pass{.mode = mode, .recompute = recompute};
        if (is_observed) pass.observe = [](const Module&, const Shape&, const Shape&) {};
        graphs::Kernels kernels;
        const Tensor y = (*net)(x, pass);
        // Two of the five relus are behind batch norms, and one is behind a sum of two tensors of
        // one shape.
        REQUIRE(kernels.calls["map"] == (is_observed ? 5 : 2));
        REQUIRE(kernels.calls["add_relu"] == (is_observed ? 0 : 1));
        backward(mse_loss(y, Tensor::full(y.shape(), 1, DType::f64, test_device())));
        found.push_back(to_doubles(y));
        found.push_back(to_doubles(parameters.gradients()));
        found.push_back(to_doubles(parameters.buffers()));
      }
    for (size_t i = 3; i < found.size(); ++i) REQUIRE(found[i] == found[i % 3]);
  }
}

TEST_CASE("a graph in 16 bits widens the gradients of parameters that are values", "[graph]") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Graph net;
    const Value x = net.input();
    const Value token = net.parameter("token", {2, 3}, Init::normal(1));
    // Two uses, of which the second adds.
    net.output(net.call("add", {net.call("mul", {x, token}), token}));
    Parameters parameters = place(net, dtype, test_device(), 1);
    const Tensor in = random({2, 3}, 13, dtype), y = net(in);
    REQUIRE(y.dtype() == dtype);
    backward(mse_loss(y, Tensor::full(y.shape(), 0, dtype, test_device())));
    const Tensor gradient = grad(parameters.entries()[0].tensor);
    REQUIRE(gradient.dtype() == DType::f32);
    const Values dy = to_doubles(y), of_x = to_doubles(in), found = to_doubles(gradient);
    const double eps = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (size_t i = 0; i < found.size(); ++i) {
      const double each = 2 * dy[i] / 6;
      REQUIRE(
          found[i] ==
          Approx(each * (of_x[i] + 1)).margin(4 * eps * std::abs(each) * (std::abs(of_x[i]) + 1)));
    }
  }
}

TEST_CASE("a graph names the call where something does not fit", "[graph]") {
  Graph net;
  const Value x = net.input();
  REQUIRE_ERROR(net.call("softmux", {x}), "there is no op softmux: expected one of ");
  REQUIRE_ERROR(net.call("add", {x}), "[add] has no other: expected add(input, other)");
  REQUIRE_ERROR(net.call("relu", {x, x}), "[relu] got 2 operands: expected relu(input)");
  REQUIRE_ERROR(net.call("leaky_relu", {x}, {{"slope", 0.1}}),
                "[leaky_relu] has no attribute slope: expected leaky_relu(input, "
                "negative_slope: float = 0.01)");
  REQUIRE_ERROR(net.call("leaky_relu", {x}, {{"negative_slope", std::string("a")}}),
                "[leaky_relu] negative_slope is 'a': expected float");
  REQUIRE_ERROR(net.call("squeeze", {x}),
                "[squeeze] has no dim: expected squeeze(input, dim: int)");
  REQUIRE_ERROR(net.call("relu", {x}, 2), "[relu] has one result, expected 2");
  REQUIRE_ERROR(net.call("relu", {Value{99}}), "a value of another graph");
  REQUIRE_ERROR(net.constant("c", {1}, {2}), "the constant c has 1 numbers: expected [2]");
  const Linear other(2, 2);
  REQUIRE_ERROR(net.call(other, x), "a layer is called that is not this graph's");
  REQUIRE_ERROR(net.run({random({2, 3}, 1)}, {}), "a network without outputs runs");

  const Value w = net.parameter("w", {3, 2}, Init::constant(1));
  const Value y = net.call("matmul", {x, w});
  net.output(net.call("add", {y, x}, {}, "encoder.sum"));
  REQUIRE_ERROR(net(random({2, 3}, 1)), "w has no storage: call place() first");
  const Parameters parameters = place(net, DType::f64, test_device(), 1);
  REQUIRE_ERROR(net(random({2, 3}, 1)), "in layer 'encoder.sum add': ");
  REQUIRE_ERROR(net(random({2, 4}, 1)), "in layer '%1 matmul': ");
}

}  // namespace accrue::test
