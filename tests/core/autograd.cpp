// The engine: which gradients are overwritten (beta 0) and which are added to (beta 1), and how
// long tensors are kept.

#include "core/autograd.h"

#include <cmath>
#include <limits>

#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"
#include "tests/core/sum.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

Tensor values(std::vector<float> v) {
  const auto n = static_cast<int64_t>(v.size());
  return Tensor::from(v, {1, n}, test_device(), Category::activations);
}

size_t activations() { return ledger(test_device()).current()[Category::activations]; }

}  // namespace

TEST_CASE("the first claim after zero_grad writes, later ones accumulate", "[engine]") {
  const Tensor x = require_grad(values({1, 2, 3}));
  x.variable()->grad = Tensor::full({1, 3}, std::nan(""), DType::f32, test_device());
  for (const float expected : {1.0f, 2.0f, 3.0f}) {
    backward(sum(x));
    for (const double g : to_doubles(grad(x))) REQUIRE(g == expected);
  }
  zero_grad(x);
  backward(sum(x));
  for (const double g : to_doubles(grad(x))) REQUIRE(g == 1.0f);
}

TEST_CASE("the seed scales the gradient", "[engine]") {
  const Tensor x = require_grad(values({1, 2}));
  backward(sum(x), 0.25);
  REQUIRE(to_doubles(grad(x))[1] == 0.25f);
}

TEST_CASE("a weight shared by several layers adds up, whatever else is fresh", "[engine]") {
  // A global flag "overwrite on first use" would be wrong here: the second use of w must add.
  const Tensor w = require_grad(Tensor::full({2, 2}, 0.5, DType::f64, test_device()));
  const Tensor v = require_grad(Tensor::full({2, 2}, 1, DType::f64, test_device()));
  const Tensor x = Tensor::full({1, 2}, 1, DType::f64, test_device());
  Tensor y = linear(linear(linear(x, w, {}), v, {}), w, {});
  backward(sum(y));
  // y = x w' v' w' 1; with all entries equal, dy/dw[i, j] = 2 uses * 1 * 2 * 2 * 0.5.
  for (const double g : to_doubles(grad(w))) REQUIRE(g == 4);
  for (const double g : to_doubles(grad(v))) REQUIRE(g == 1);
}

TEST_CASE("frozen parameters refuse claims", "[engine]") {
  Sequential model;
  model.add<Linear>(3, 4, Activation::relu);
  model.add<Linear>(4, 2);
  Parameters parameters = place(model, DType::f32, test_device(), 1);
  parameters.freeze("0.");
  const Tensor labels = Tensor::from(std::vector<int32_t>{1}, {1}, test_device());
  backward(cross_entropy(model(values({1, 2, 3})), labels));
  REQUIRE_FALSE(parameters.entries()[0].claimed());
  REQUIRE_FALSE(parameters.entries()[1].claimed());
  REQUIRE(parameters.entries()[2].claimed());
  parameters.unfreeze();
  backward(cross_entropy(model(values({1, 2, 3})), labels));
  REQUIRE(parameters.entries()[0].claimed());
}

TEST_CASE("freezing between forward and backward counts", "[engine]") {
  const Tensor x = require_grad(values({1, 2}));
  const Tensor y = sum(x);
  x.variable()->frozen = true;
  backward(y);
  REQUIRE_ERROR(grad(x), "has no gradient");
}

TEST_CASE("NoGrad and detach end differentiation", "[engine]") {
  const Tensor x = require_grad(values({1, 2}));
  {
    const NoGrad no_grad;
    REQUIRE_FALSE(sum(x).variable());
  }
  REQUIRE(sum(x).variable());
  REQUIRE_FALSE(sum(x.detach()).variable());
  REQUIRE_ERROR(backward(sum(x.detach())), "depends on nothing differentiable");
}

TEST_CASE("a graph is used once", "[engine]") {
  const Tensor x = require_grad(values({1, 2}));
  const Tensor y = sum(x);
  backward(y);
  REQUIRE_ERROR(backward(y), "reached 'matmul' a second time");
  REQUIRE_ERROR(backward(x), "one element");
}

TEST_CASE("nothing is left after backward", "[engine]") {
  const size_t before = activations();
  {
    const Tensor w =
        require_grad(Tensor::full({64, 64}, 0.01, DType::f32, test_device(), Category::parameters));
    Tensor x = Tensor::full({32, 64}, 1, DType::f32, test_device());
    for (int layer = 0; layer < 4; ++layer) x = relu(linear(x, w, {}));
    Tensor loss = cross_entropy(x, Tensor::from(std::vector<int32_t>(32, 0), {32}, test_device()));
    const Tensor logits = std::move(x);
    REQUIRE(activations() > before);
    backward(loss);
    // The test still holds the logits, and the loss with its variable; but the graph is released.
    REQUIRE(activations() - before <= logits.bytes() + 2 * Ledger::alignment);
  }
  REQUIRE(activations() == before);
}

TEST_CASE("backward needs no more than two gradients of activations at a time", "[engine]") {
  constexpr int64_t N = 64, F = 256;
  const Tensor w =
      require_grad(Tensor::full({F, F}, 0.01, DType::f32, test_device(), Category::parameters));
  w.variable()->grad = Tensor::full({F, F}, 0, DType::f32, test_device(), Category::gradients);
  const auto peak = [&](int layers) {
    const size_t before = activations();
    ledger(test_device()).reset_peak();
    Tensor x = Tensor::full({N, F}, 1, DType::f32, test_device());
    for (int layer = 0; layer < layers; ++layer) x = relu(linear(x, w, {}));
    Tensor loss = cross_entropy(x, Tensor::from(std::vector<int32_t>(N, 0), {N}, test_device()));
    x.reset();
    backward(loss);
    return ledger(test_device()).peak()[Category::activations] - before;
  };
  const size_t one = N * F * sizeof(float);
  // Every layer keeps one tensor (relu works in place). Backward's dy and dx come on top, but by
  // then the memory of the logits is in use again.
  REQUIRE(peak(8) - peak(4) == 4 * one);
  REQUIRE(peak(8) <= (8 + 2) * one + 4 * Ledger::alignment);
}

TEST_CASE("reshape is the same variable under another shape", "[engine]") {
  const Tensor x = require_grad(values({1, -2, 3, -4}));
  const Tensor y = relu(x);
  const Tensor z = y.reshape({4, 1});
  REQUIRE(z.view().data == y.view().data);
  backward(matmul(Tensor::full({1, 4}, 2, DType::f32, test_device()), z));
  REQUIRE(to_doubles(grad(x))[0] == 2);
  REQUIRE(to_doubles(grad(x))[1] == 0);
  REQUIRE_ERROR(x.reshape({3}), "cannot reshape [1, 4] (4 elements) to [3] (3 elements)");
  REQUIRE_ERROR(y.slice(0, 1), "being differentiated");
}

TEST_CASE("the ledger knows its peak and its limit", "[engine][memory]") {
  Ledger& account = ledger(Device::meta);
  const Usage before = account.current();
  account.reset_peak();
  {
    const Tensor a = Tensor::empty({1000}, DType::f32, Device::meta, Category::data);
    const Tensor b = Tensor::empty({10}, DType::f64, Device::meta, Category::workspace);
    REQUIRE(account.current()[Category::data] - before[Category::data] == 4032);
    REQUIRE(account.current()[Category::workspace] - before[Category::workspace] == 128);
    account.set_limit(account.current().total() + 100);
    REQUIRE_ERROR(Tensor::empty({1000}, DType::f32, Device::meta),
                  "out of memory on meta: asked for 3.9 KiB more (activations)");
    account.set_limit(std::nullopt);
  }
  REQUIRE(account.current().bytes == before.bytes);
  REQUIRE(account.peak().total() - before.total() == 4032 + 128);
  REQUIRE(account.peak()[Category::workspace] - before[Category::workspace] == 128);
}

TEST_CASE("sizes are read as people write them", "[engine][memory]") {
  REQUIRE(parse_bytes("64MiB") == 64u << 20);
  REQUIRE(parse_bytes("1.5 GiB") == 3u << 29);
  REQUIRE(parse_bytes("4096") == 4096);
  REQUIRE(parse_bytes("2kb") == 2000);
  for (const char* bad : {"", "MiB", "-1MiB", "12 parsecs", "0", "1e30GiB", "nan"})
    REQUIRE_ERROR(parse_bytes(bad), "is not a size");
  REQUIRE(format_bytes(3250585) == "3.1 MiB");
}

TEST_CASE("a value that backward needs must be the one that forward read", "[engine]") {
  const Tensor a = require_grad(values({3})), b = values({2});
  const auto product_of = [&](const Tensor& x) { return sum(mul(a, x)); };
  const auto overwrite = [](const Tensor& x) { x.fill(100); };
  Tensor loss = product_of(b);
  overwrite(b);
  REQUIRE_ERROR(backward(loss), "backward() needs f32 [1, 1] as forward read it, but somebody");
  zero_grad(a);
  loss = product_of(b);
  b.copy_from(values({2}));
  REQUIRE_ERROR(backward(loss), "overwritten");
  // In a segment that runs again: the second run would read the changed b.
  zero_grad(a);
  loss = sum(recompute([&](const auto& in) { return mul(in[0], in[1]); }, {a, b}));
  overwrite(b);
  REQUIRE_ERROR(backward(loss), "overwritten");
  // The same holds for indices.
  const Tensor samples = Tensor::from(std::vector<int32_t>{5}, {1}, test_device());
  loss = sum(dropout(a, 0.5, {.samples = samples}));
  samples.copy_from(Tensor::from(std::vector<int32_t>{6}, {1}));
  REQUIRE_ERROR(backward(loss), "backward() needs i32 [1]");
  // A tensor that no backward needs may be overwritten. After backward, all of them may be.
  zero_grad(a);
  loss = sum(add(scale(a, 2), b));
  overwrite(b);
  backward(loss);
  overwrite(a);
  REQUIRE(to_doubles(grad(a)) == std::vector<double>{2});
}

}  // namespace accrue::test
