// Graphs whose segments have several results: same bits, less memory.

#include <cmath>

#include "core/ledger.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/losses.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {
namespace cuts {

using Value = Graph::Value;

// Calls whose results are weighed by their bytes for a sample.
class Net {
 public:
  Value input() { return graph->input(); }
  Value conv(Value x, int64_t in, int64_t out, double pixels, const std::string& name) {
    return weighed(
        graph->call(std::make_unique<Conv2d>(in, out, 3, Conv2dShape{.padding = 1}), x, name),
        double(out) * pixels);
  }
  Value call(std::string_view op, const std::vector<Value>& operands, double numbers,
             const Graph::Attributes& attributes = {}) {
    return weighed(graph->call(op, operands, attributes), numbers);
  }
  std::vector<Value> halves(Value x, double numbers) {
    auto both = graph->call("chunk", {x}, 2, {{"chunks", 2}, {"dim", 1}});
    weighed(both.front(), numbers);
    return both;
  }

  std::unique_ptr<Graph> graph = std::make_unique<Graph>();

 private:
  Value weighed(Value x, double numbers) {
    graph->weigh(x, 4 * numbers);
    return x;
  }
};

// Three levels that are joined by skips.
std::unique_ptr<Graph> unet() {
  Net net;
  const auto twice = [&](Value x, int64_t in, int64_t out, double pixels, const std::string& name) {
    for (const int i : {0, 1})
      x = net.call("relu", {net.conv(x, i ? out : in, out, pixels, fmt::format("{}.{}", name, i))},
                   double(out) * pixels);
    return x;
  };
  std::vector<Value> skips;
  Value x = net.input();
  double pixels = 32 * 32;
  for (const int64_t C : {4, 8}) {
    x = twice(x, C == 4 ? 3 : C / 2, C, pixels, fmt::format("down{}", C));
    skips.push_back(x);
    pixels /= 4;
    x = net.call("max_pool2d", {x}, double(C) * pixels, {{"kernel_size", 2}});
  }
  x = twice(x, 8, 16, pixels, "deep");
  for (const int64_t C : {8, 4}) {
    pixels *= 4;
    x = net.call("interpolate", {x}, double(2 * C) * pixels,
                 {{"scale_factor", 2.0}, {"mode", std::string("bilinear")}});
    x = net.call("cat", {skips.back(), x}, double(3 * C) * pixels, {{"dim", 1}});
    skips.pop_back();
    x = twice(x, 3 * C, C, pixels, fmt::format("up{}", C));
  }
  net.graph->output(net.conv(x, 4, 1, pixels, "head"));
  return std::move(net.graph);
}

// Two dense blocks of six layers, each of which reads all results before it, as a list or as the
// concatenation of the last with what is new. A transition is between the blocks.
std::unique_ptr<Graph> dense(bool as_list) {
  Net net;
  const int64_t growth = 4;
  double pixels = 16 * 16;
  Value x = net.conv(net.input(), 3, 8, pixels, "stem");
  int64_t C = 8;
  for (const int block : {0, 1}) {
    std::vector<Value> all{x};
    for (int i = 0; i < 6; ++i) {
      const std::string name = fmt::format("block{}.{}", block, i);
      if (i > 0) x = net.call("cat", all, double(C) * pixels, {{"dim", 1}});
      Value h = net.call("relu", {x}, double(C) * pixels);
      h = net.conv(h, C, 4 * growth, pixels, name + ".bottleneck");
      h = net.call("gelu", {h}, double(4 * growth) * pixels);
      h = net.conv(h, 4 * growth, growth, pixels, name + ".conv");
      if (!as_list) all = {x};
      all.push_back(h);
      C += growth;
    }
    x = net.call("cat", all, double(C) * pixels, {{"dim", 1}});
    if (block == 1) break;
    x = net.conv(x, C, C / 2, pixels, "transition");
    C /= 2;
    pixels /= 4;
    x = net.call("avg_pool2d", {x}, double(C) * pixels, {{"kernel_size", 2}});
  }
  net.graph->output(net.conv(x, C, 2, pixels, "head"));
  return std::move(net.graph);
}

// A state of two tensors passes from step to step, beside its form as one row and a mask that has
// no gradient but is made from what has.
std::unique_ptr<Graph> cells(int steps) {
  Net net;
  const double numbers = 4.0 * 8 * 8;
  const Value images = net.input();
  Value h = net.conv(images, 3, 4, 64, "h"), c = net.conv(images, 3, 4, 64, "c");
  Value rows, mask;
  for (int t = 0; t < steps; ++t) {
    const Value both = net.call("cat", {h, c}, 2 * numbers, {{"dim", 1}});
    const Value z = net.conv(both, 8, 8, 64, fmt::format("step{}", t));
    const auto parts = net.halves(z, 2 * numbers);
    c = net.call("add",
                 {net.call("mul", {net.call("sigmoid", {parts[0]}, numbers), c}, numbers),
                  net.call("tanh", {parts[1]}, numbers)},
                 numbers);
    h = net.call("mul", {net.call("sin", {c}, numbers), net.call("cos", {h}, numbers)}, numbers);
    if (t == 0) {
      rows = net.call("flatten", {h}, numbers, {{"start_dim", 1}});
      mask = net.call("greater", {c, h}, numbers);
    }
  }
  const Value masked = net.call("where", {mask, h, c}, numbers);
  const Value flat = net.call("flatten", {masked}, numbers, {{"start_dim", 1}});
  net.graph->output(net.call("mul", {flat, rows}, numbers));
  net.graph->output(c);
  return std::move(net.graph);
}

struct Outcome {
  std::vector<double> answers, gradients;
  size_t peak;
};

Outcome outcome_of(Graph& net, const Shape& shape, Recompute recompute, DType dtype,
                   Device device) {
  const Parameters parameters = place(net, dtype, device, 7);
  RandomStream stream(3);
  Tensor x = Tensor::empty(shape, dtype, is_meta(device) ? device : Device::cpu, Category::data);
  if (!is_meta(device)) {
    dispatch_wide(dtype, [&]<class T>() {
      for (T& value : x.span<T>()) value = T(stream.normal());
    });
    x = x.to(device);
  }
  Outcome outcome;
  ledger(device).reset_peak();
  const size_t before = ledger(device).current().total();
  // Two micro-batches, of which the second adds to the first.
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> ys = net.run({x}, {.recompute = recompute});
    Tensor loss;
    for (const Tensor& y : ys) {
      const Tensor one = mse_loss(y, Tensor::full(y.shape(), 0.25, dtype, device));
      loss = loss.defined() ? add(loss, one) : one;
      if (!is_meta(device)) {
        const auto values = to_doubles(y);
        outcome.answers.insert(outcome.answers.end(), values.begin(), values.end());
      }
    }
    backward(loss, 0.5);
  }
  outcome.peak = ledger(device).peak().total() - before;
  if (!is_meta(device)) outcome.gradients = to_doubles(parameters.gradients());
  return outcome;
}

// Requires the same bits for every Recompute, and at most these percent of the peak without it.
void require_cuts(const std::function<std::unique_ptr<Graph>()>& make, const Shape& shape,
                  size_t percent_sqrt, size_t percent_all) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto run = [&](Recompute recompute, Device device) {
      return outcome_of(*make(), shape, recompute, dtype, device);
    };
    const Outcome kept = run(Recompute::none, test_device());
    for (const auto& [recompute, percent] :
         {std::pair{Recompute::sqrt, percent_sqrt}, {Recompute::all, percent_all}}) {
      const Outcome again = run(recompute, test_device());
      REQUIRE(again.answers == kept.answers);
      REQUIRE(again.gradients == kept.gradients);
      // Beside the scratch of convolutions on cuda these activations are little.
      if (test_device() != Device::cpu) continue;
      INFO(again.peak << " B of " << kept.peak);
      REQUIRE(100 * again.peak <= percent * kept.peak);
      REQUIRE(run(recompute, Device::meta).peak == again.peak);
    }
  }
}

}  // namespace cuts
using cuts::require_cuts;
}  // namespace

TEST_CASE("a U-Net as a graph is cut beside its skips", "[graph]") {
  require_cuts(cuts::unet, {2, 3, 32, 32}, 74, 80);
}

TEST_CASE("a dense block as a graph is cut between its layers", "[graph]") {
  require_cuts([] { return cuts::dense(true); }, {2, 3, 16, 16}, 56, 56);
  require_cuts([] { return cuts::dense(false); }, {2, 3, 16, 16}, 64, 66);
}

TEST_CASE("a state of several tensors crosses the cuts of a graph", "[graph]") {
  require_cuts([] { return cuts::cells(9); }, {2, 3, 8, 8}, 42, 43);
}

}  // namespace accrue::test
