// Linears of a graph that run with the sum or the gelu behind them on cuda.

#include <cmath>
#include <map>

#include "core/kernel_trace.h"
#include "core/ledger.h"
#include "core/random.h"
#include "kernels/losses.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {
namespace joined {

using Value = Graph::Value;
using Values = std::vector<double>;

bool is_cuda() { return test_device() == Device::cuda; }

Tensor random(const Shape& shape, uint64_t seed, DType dtype) {
  RandomStream stream(seed);
  const Tensor x = Tensor::empty(shape, dtype, Device::cpu, Category::data);
  dispatch_floating(dtype, [&]<class T>() {
    for (T& value : x.span<T>()) value = T(static_cast<Wide<T>>(stream.normal()));
  });
  return x.to(test_device());
}

// Linears are layers, or ops of parameters.
class Net {
 public:
  explicit Net(bool has_ops = true) : has_ops_(has_ops) {}

  Value linear(Value x, int64_t in, int64_t out, const std::string& name, Bias bias = Bias::learned,
               Activation activation = Activation::none) {
    if (!has_ops_ || activation != Activation::none)
      return graph.call(std::make_unique<Linear>(in, out, activation, InitScheme::kaiming,
                                                 WeightNorm::none, bias),
                        x, name);
    std::vector<Value> operands{
        x, graph.parameter(name + ".weight", {out, in}, Init::lecun_uniform(in))};
    if (bias == Bias::learned)
      operands.push_back(graph.parameter(name + ".bias", {out}, Init::lecun_uniform(in)));
    return graph.call("linear", operands, {}, name);
  }
  Value gelu(Value x, const std::string& kind) {
    if (has_ops_) return graph.call("gelu", {x}, {{"approximate", kind}});
    if (kind == "none") return graph.call(std::make_unique<Gelu>(), x);
    return graph.call(std::make_unique<GeluTanh>(), x);
  }
  Value add(Value a, Value b) { return graph.call("add", {a, b}); }
  Value norm(Value x, int64_t width) {
    return graph.call("layer_norm", {x}, {{"normalized_shape", width}});
  }

  Graph graph;

 private:
  bool has_ops_;
};

// Residual connections around a linear, and around two with a gelu between them. A linear is the
// left operand of a sum or the right one.
std::unique_ptr<Net> residual(bool has_ops, const std::string& kind, int64_t E = 8) {
  auto net = std::make_unique<Net>(has_ops);
  Value x = net->linear(net->graph.input(), E, E, "stem");
  for (const int i : {0, 1}) {
    const std::string name = fmt::format("blocks.{}.", i);
    x = net->add(x, net->linear(net->norm(x, E), E, E, name + "out"));
    const Value h = net->gelu(net->linear(net->norm(x, E), E, 4 * E, name + "fc"), kind);
    x = net->add(net->linear(h, 4 * E, E, name + "proj"), x);
  }
  net->graph.output(x);
  return net;
}

class Kernels : public KernelTrace {
 public:
  void add(const KernelCall& call) override { ++calls[std::string(call.name())]; }
  std::map<std::string, int> calls;
};

// A pass that joins no calls.
Pass observed(Pass pass = {}) {
  pass.observe = [](const Module&, const Shape&, const Shape&) {};
  return pass;
}

struct Outcome {
  Values answer, gradients;
  std::map<std::string, int> kernels;
};

using Make = std::function<std::unique_ptr<Net>()>;

Outcome outcome_of(const Make& make, const Tensor& x, const Pass& pass = {},
                   const std::vector<std::string>& freeze = {}) {
  const DType dtype = x.dtype();
  const auto net = make();
  const Parameters parameters =
      place(net->graph, dtype, test_device(), 7, GradientStorage::arena, freeze);
  Kernels kernels;
  const Tensor y = net->graph.run({x}, pass).front();
  Outcome outcome{to_doubles(y), {}, {}};
  backward(mse_loss(y, Tensor::full(y.shape(), 0.25, dtype, test_device())));
  for (const Parameters::Entry& entry : parameters.entries())
    for (const double value : to_doubles(grad(entry.tensor))) outcome.gradients.push_back(value);
  outcome.kernels = kernels.calls;
  return outcome;
}

// The predicted peak of a forward that keeps nothing.
size_t forward_peak(const Make& make, const Pass& pass, const std::vector<std::string>& freeze) {
  const MetaScope on(true);
  const Device device = test_device();
  const auto net = make();
  const Parameters parameters =
      place(net->graph, DType::f32, device, 7, GradientStorage::arena, freeze);
  // Larger than the workspace of a product.
  Tensor x = Tensor::empty({1 << 20, 8}, DType::f32, device, Category::data);
  ledger(device).reset_peak();
  const NoGrad no_grad;
  net->graph(std::move(x), pass);
  return ledger(device).peak().total();
}

// The peak of a forward and a backward.
size_t peak_of(const Pass& pass, bool has_backward, DType dtype, bool is_meta) {
  const MetaScope on(is_meta);
  const Device device = test_device();
  const auto net = residual(true, "tanh", 16);
  const Parameters parameters = place(net->graph, dtype, device, 7);
  const Tensor x = Tensor::empty({2, 40, 16}, dtype, device, Category::data);
  if (!is_meta) x.fill(0.5);
  ledger(device).reset_peak();
  const size_t before = ledger(device).current().total();
  if (has_backward) {
    const Tensor y = net->graph(x, pass);
    backward(mse_loss(y, Tensor::full(y.shape(), 0.25, dtype, device)));
  } else {
    const NoGrad no_grad;
    net->graph(x, pass);
  }
  return ledger(device).peak().total() - before;
}

}  // namespace joined
}  // namespace

TEST_CASE("a graph's product adds the residual connection on cuda", "[graph]") {
  for (const bool has_ops : {true, false})
    for (const std::string kind : {"none", "tanh"}) {
      const auto make = [&] { return joined::residual(has_ops, kind); };
      const Tensor x = joined::random({3, 5, 8}, 1, DType::f64);
      const auto apart = joined::outcome_of(make, x, joined::observed()),
                 found = joined::outcome_of(make, x);
      const auto calls = [&](const joined::Outcome& outcome, const std::string& name) {
        const auto at = outcome.kernels.find(name);
        return at == outcome.kernels.end() ? 0 : at->second;
      };
      const bool is_cuda = joined::is_cuda();
      REQUIRE(calls(apart, "add") == 4);
      REQUIRE(calls(apart, "map_backward") == 2);
      REQUIRE(calls(found, "add") == (is_cuda ? 0 : 4));
      REQUIRE(calls(found, "add_linear_forward") == (is_cuda ? 4 : 0));
      // One for each operand of a sum. Those over dy do nothing.
      REQUIRE(calls(found, "scale") == calls(apart, "scale") - (is_cuda ? 4 : 0));
      REQUIRE(calls(found, "map_backward") == (is_cuda ? 0 : 2));
      REQUIRE(calls(found, "slope_and_sums") == (is_cuda ? 2 : 0));
      if (!is_cuda) {
        REQUIRE(found.answer == apart.answer);
        REQUIRE(found.gradients == apart.gradients);
      }
      // Sums of at most 60 terms of about 1.
      REQUIRE(largest_difference(found.answer, apart.answer) < 1e-13);
      REQUIRE(largest_difference(found.gradients, apart.gradients) < 1e-13);
    }
}

TEST_CASE("a joined graph in float32 is near the same in float64", "[graph]") {
  for (const bool has_ops : {true, false}) {
    const auto make = [&] { return joined::residual(has_ops, "none"); };
    // Values that both types have, so that only the arithmetic differs.
    const Tensor x = joined::random({3, 30, 8}, 2, DType::f32);
    const joined::Values of_x = to_doubles(x);
    const auto exact = joined::outcome_of(make, Tensor::from(of_x, x.shape(), test_device()),
                                          joined::observed()),
               found = joined::outcome_of(make, x);
    // Weights, too, are rounded to float32. A value passes about ten sums of at most 32 terms, a
    // gradient of a weight one of 90 more, each of terms of about 1.
    const double bound = 0x1p-24 * 10 * 90;
    REQUIRE(largest_difference(found.answer, exact.answer) < bound);
    REQUIRE(largest_difference(found.gradients, exact.gradients) < bound);
  }
}

TEST_CASE("joined calls of a graph have the same bits for every Recompute", "[graph]") {
  struct Case {
    joined::Make make;
    std::vector<std::string> freeze{};
  };
  const std::vector<Case> cases{
      {[] { return joined::residual(true, "tanh"); }},
      {[] { return joined::residual(false, "none"); }},
      // A cut before the sums would keep least.
      {[] {
        auto net = std::make_unique<joined::Net>();
        joined::Value x = net->graph.input();
        for (int i = 0; i < 6; ++i) {
          x = net->add(x, net->linear(x, 8, 8, fmt::format("{}", i)));
          net->graph.weigh(x, 16);
        }
        net->graph.output(x);
        return net;
      }},
      // The same before gelus.
      {[] {
        auto net = std::make_unique<joined::Net>();
        joined::Value x = net->graph.input();
        for (int i = 0; i < 6; ++i) {
          x = net->gelu(net->linear(x, 8, 8, fmt::format("{}", i)), "none");
          net->graph.weigh(x, 16);
        }
        net->graph.output(x);
        return net;
      }},
      // Linears without gradients come before all segments, and their sums do not.
      {[] {
         auto net = std::make_unique<joined::Net>();
         const joined::Value in = net->graph.input();
         joined::Value x = net->linear(in, 8, 8, "stem");
         for (int i = 0; i < 4; ++i) {
           const std::string name = fmt::format("{}", i);
           const joined::Value h = net->linear(x, 8, 8, "trained." + name);
           x = net->add(h, net->linear(in, 8, 8, "frozen." + name));
         }
         net->graph.output(x);
         return net;
       },
       {"frozen"}}};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(name(dtype), i);
      // Few samples have products of other kernels.
      for (const int64_t N : {2, 80}) {
        const Tensor x = joined::random({N, 8}, 3, dtype);
        const auto run = [&](Recompute recompute) {
          return joined::outcome_of(cases[i].make, x, {.recompute = recompute}, cases[i].freeze);
        };
        const joined::Outcome kept = run(Recompute::none);
        REQUIRE(kept.kernels.contains(i == 3 ? "slope_and_sums" : "add_linear_forward") ==
                joined::is_cuda());
        for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
          const joined::Outcome again = run(recompute);
          REQUIRE(again.answer == kept.answer);
          REQUIRE(again.gradients == kept.gradients);
        }
      }
    }
}

TEST_CASE("a graph adds no term that does not fit its product", "[graph]") {
  using joined::Value;
  struct Case {
    std::string name;
    std::function<void(joined::Net&, Value in)> build;  // in [N, 3, 8]
    int sums = 0;                                       // that are joined on cuda
    Pass pass{};
  };
  const auto linear = [](joined::Net& net, Value x, const std::string& name, int64_t out = 8) {
    return net.linear(x, 8, out, name);
  };
  const Pass pass{.seed = 3,
                  .samples = Tensor::from(std::vector<int32_t>{4, 9}, {2}, test_device())};
  const std::vector<Case> cases{
      {"the sum",
       [&](joined::Net& net, Value in) { net.graph.output(net.add(in, linear(net, in, "a"))); }, 1},
      {"the sum of a term that is read again",
       [&](joined::Net& net, Value in) {
         const Value x = linear(net, in, "x"), y = net.add(x, linear(net, x, "a"));
         net.graph.output(net.graph.call("mul", {y, x}));
       },
       1},
      {"two linears",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a"), b = linear(net, in, "b");
         net.graph.output(net.add(a, b));
       },
       1},
      {"an answer that is read twice",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a");
         net.graph.output(net.graph.call("mul", {net.add(in, a), a}));
       }},
      {"an answer that is added to itself",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a");
         net.graph.output(net.add(a, a));
       }},
      {"an answer of the graph's",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a");
         net.graph.output(net.add(in, a));
         net.graph.output(a);
       }},
      {"a term that is computed later",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a");
         net.graph.output(net.add(net.graph.call("tanh", {in}), a));
       }},
      // Between the two, a graph might be cut.
      {"a call between",
       [&](joined::Net& net, Value in) {
         const Value a = linear(net, in, "a"), b = linear(net, in, "b");
         net.graph.output(net.graph.call("mul", {net.add(in, a), b}));
       }},
      {"a term that is broadcast",
       [&](joined::Net& net, Value in) {
         const Value mean = net.graph.call("mean", {in}, {{"dim", 1}, {"keepdim", true}});
         net.graph.output(net.add(mean, linear(net, in, "a")));
       }},
      {"a product that is broadcast",
       [&](joined::Net& net, Value in) {
         const Value mean = net.graph.call("mean", {in}, {{"dim", 1}, {"keepdim", true}});
         net.graph.output(net.add(in, linear(net, mean, "a")));
       }},
      {"a product of one column that is broadcast",
       [&](joined::Net& net, Value in) { net.graph.output(net.add(in, linear(net, in, "a", 1))); }},
      {"a parameter",
       [&](joined::Net& net, Value in) {
         const Value p = net.graph.parameter("p", {2, 3, 8}, Init::normal(1));
         net.graph.output(net.add(p, linear(net, in, "a")));
       }},
      {"dropout between",
       [&](joined::Net& net, Value in) {
         const Value a = net.graph.call("dropout", {linear(net, in, "a")});
         net.graph.output(net.add(in, a));
       },
       0, pass},
      {"an activation",
       [&](joined::Net& net, Value in) {
         const Value a = net.linear(in, 8, 8, "a", Bias::learned, Activation::tanh);
         net.graph.output(net.add(in, a));
       }},
      {"a relu behind the sum",
       [&](joined::Net& net, Value in) {
         net.graph.output(net.graph.call("relu", {net.add(in, linear(net, in, "a"))}));
       }},
  };
  const Tensor x = joined::random({2, 3, 8}, 4, DType::f64);
  for (const Case& each : cases)
    for (const bool has_ops : {true, false}) {
      CAPTURE(each.name, has_ops);
      const auto make = [&] {
        auto net = std::make_unique<joined::Net>(has_ops);
        each.build(*net, net->graph.input());
        return net;
      };
      auto found = joined::outcome_of(make, x, each.pass);
      const auto apart = joined::outcome_of(make, x, joined::observed(each.pass));
      REQUIRE(found.kernels["add_linear_forward"] == (joined::is_cuda() ? each.sums : 0));
      REQUIRE(largest_difference(found.answer, apart.answer) < 1e-13);
      REQUIRE(largest_difference(found.gradients, apart.gradients) < 1e-13);
    }
  // Types that differ are the sum's error.
  joined::Net net;
  const Value a = net.graph.input("a"), b = net.graph.input("b");
  net.graph.output(net.add(b, linear(net, a, "a")));
  const Parameters parameters = place(net.graph, DType::f64, test_device(), 1);
  REQUIRE_ERROR(net.graph.run({x, joined::random({2, 3, 8}, 5, DType::f32)}, {}), "[add] ");
}

TEST_CASE("a graph joins a gelu where a bias has a gradient", "[graph]") {
  struct Case {
    bool is_read_twice = false;
    Bias bias = Bias::learned;
    std::vector<std::string> freeze{};
    Pass::Mode mode = Pass::Mode::train;
    bool is_joined = false;
  };
  const std::vector<Case> cases{{.is_joined = true},
                                {.is_read_twice = true},
                                {.bias = Bias::none},
                                {.freeze = {"fc"}},
                                {.mode = Pass::Mode::eval}};
  const Tensor x = joined::random({70, 8}, 6, DType::f64);
  for (size_t i = 0; i < cases.size(); ++i)
    for (const bool has_ops : {true, false}) {
      CAPTURE(i, has_ops);
      const Case& each = cases[i];
      const auto make = [&] {
        auto net = std::make_unique<joined::Net>(has_ops);
        const joined::Value in = net->linear(net->graph.input(), 8, 8, "stem"),
                            z = net->linear(in, 8, 8, "fc", each.bias), y = net->gelu(z, "tanh");
        net->graph.output(each.is_read_twice ? net->graph.call("mul", {y, z}) : y);
        return net;
      };
      const Pass pass{.mode = each.mode};
      auto found = joined::outcome_of(make, x, pass, each.freeze);
      const auto apart = joined::outcome_of(make, x, joined::observed(pass), each.freeze);
      REQUIRE(found.kernels["slope_and_sums"] == (joined::is_cuda() && each.is_joined ? 1 : 0));
      if (!each.is_joined)
        REQUIRE(joined::forward_peak(make, pass, each.freeze) ==
                joined::forward_peak(make, joined::observed(pass), each.freeze));
      REQUIRE(found.answer == apart.answer);
      REQUIRE(found.gradients == apart.gradients);
    }
  joined::Net net;
  net.graph.output(net.gelu(net.linear(net.graph.input(), 8, 8, "fc"), "erf"));
  const Parameters parameters = place(net.graph, DType::f64, test_device(), 1);
  REQUIRE_ERROR(net.graph.run({x}, {}), "[gelu] approximate is 'erf'");
}

TEST_CASE("joined calls of a graph take no more memory, which is predicted", "[graph]") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool has_backward : {true, false})
      for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all}) {
        CAPTURE(name(dtype), has_backward, int(recompute));
        const Pass pass{.mode = has_backward ? Pass::Mode::train : Pass::Mode::eval,
                        .recompute = recompute};
        const size_t peak = joined::peak_of(pass, has_backward, dtype, false);
        REQUIRE(peak == joined::peak_of(pass, has_backward, dtype, true));
        REQUIRE(peak <= joined::peak_of(joined::observed(pass), has_backward, dtype, true));
      }
}

TEST_CASE("joined calls of a graph take fewer launches", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  const auto net = joined::residual(true, "tanh", 32);
  const Parameters parameters = place(net->graph, DType::f32, test_device(), 7);
  // More rows than the kernels for small products take.
  const Tensor x = joined::random({2, 40, 32}, 8, DType::f32);
  const auto count = [&](const Pass& pass) {
    const auto step = [&] {
      const Tensor y = net->graph(x, pass);
      backward(mse_loss(y, Tensor::full(y.shape(), 0.25, DType::f32, test_device())));
    };
    step();
    return launches_by_kind(step);
  };
  const LaunchKinds apart = count(joined::observed()), found = count({});
  INFO(apart.kernels << " kernels and " << apart.library_calls << " products, joined "
                     << found.kernels << " and " << found.library_calls);
  // Four sums and the copies of their gradients, and for each of two gelus a sum of dz.
  REQUIRE(found.kernels == apart.kernels - 4 - 4 - 2);
  REQUIRE(found.library_calls == apart.library_calls);
}

}  // namespace accrue::test
