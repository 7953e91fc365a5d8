// Losses with a target of the same shape.

#include "kernels/losses.h"

#include <cmath>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/mask_score.h"
#include "kernels/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor constant(const Values& values, const Tensor& like) {
  return dispatch_floating(like.dtype(), [&]<class T>() {
    std::vector<T> rounded(values.size());
    std::ranges::transform(values, rounded.begin(), [](double v) { return T(Wide<T>(v)); });
    return Tensor::from(rounded, like.shape(), like.device());
  });
}

Tensor floats(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())}, test_device());
}

using Loss = Tensor (*)(const Tensor& x, const Tensor& target);

template <class F>
Op loss_op(std::string name, Loss loss, const Values& target, F f) {
  return {.name = std::move(name),
          .inputs = {{2, static_cast<int64_t>(target.size()) / 2}},
          .run = [=](const auto& in) { return loss(in[0], constant(target, in[0])); },
          .reference =
              [=](const auto& in) {
                double sum = 0;
                for (size_t i = 0; i < target.size(); ++i) sum += f(in[0][i], target[i]);
                return Values{sum / static_cast<double>(target.size())};
              },
          .depth = static_cast<double>(target.size()) + 8,
          .low = -2,
          .high = 2};
}

double logistic_loss(double x, double t) {
  const double s = 1 / (1 + std::exp(-x));
  return -t * std::log(s) - (1 - t) * std::log(1 - s);
}

}  // namespace

TEST_CASE("losses", "[ops]") {
  check_op(loss_op("mse_loss", mse_loss, {0.5, -1, 0, 2, 1, -0.25, 3, 0.125},
                   [](double x, double t) { return (x - t) * (x - t); }));
  // No x in [-2, 2) comes near a target, where |x - t| has no derivative.
  check_op(loss_op("l1_loss", l1_loss, {2.5, -2.5, 3, -3, -4, 4},
                   [](double x, double t) { return std::abs(x - t); }));
  check_op(
      loss_op("bce_with_logits", bce_with_logits, {0, 1, 1, 0.25, 0.9, 0, 0.5, 1}, logistic_loss));
}

TEST_CASE("bce_with_logits against a constant", "[ops]") {
  for (const double target : {0.0, 0.3, 1.0}) {
    Op op = loss_op("", bce_with_logits, Values(8, target), logistic_loss);
    op.name = fmt::format("bce_with_logits against {}", target);
    op.run = [=](const auto& in) { return bce_with_logits(in[0], target); };
    check_op(op);
  }
}

// Both compute the same operations, so they agree to the last bit. There are more elements than a
// block sums up.
TEST_CASE("bce_with_logits with a constant target equals it with a tensor, without its memory",
          "[ops]") {
  constexpr int64_t size = 40'003;
  std::vector<float> values(size);
  RandomStream random(1);
  for (float& v : values) v = random.uniform(-40, 40);
  values[0] = 1e4f;
  values[1] = -1e4f;
  for (const float target : {0.0f, 0.25f, 1.0f}) {
    const Tensor x = require_grad(floats(values)), x_of_tensor = require_grad(floats(values));
    const size_t before = ledger(test_device()).current().total();
    const Tensor loss = bce_with_logits(x, target);
    REQUIRE(ledger(test_device()).current().total() - before == Ledger::alignment);
    const Tensor expected =
        bce_with_logits(x_of_tensor, Tensor::full({size}, target, DType::f32, test_device()));
    REQUIRE(loss.item() == expected.item());
    backward(loss);
    backward(expected);
    REQUIRE(to_doubles(grad(x)) == to_doubles(grad(x_of_tensor)));
  }
}

TEST_CASE("l1_loss has slope 0 where x meets the target", "[ops]") {
  const Tensor x = require_grad(floats({1, 2, 3, 4}));
  backward(l1_loss(x, floats({0, 2, 4, 4})));
  REQUIRE(to_doubles(grad(x)) == Values{0.25, 0, -0.25, 0});
}

TEST_CASE("bce_with_logits survives large logits", "[ops]") {
  const Tensor x = require_grad(floats({1e4f, -1e4f, 1e4f, -1e4f}));
  const Tensor loss = bce_with_logits(x, floats({1, 1, 0, 0}));
  REQUIRE(loss.item() == 5e3);
  backward(loss);
  REQUIRE(to_doubles(grad(x)) == Values{0, -0.25, 0.25, 0});
}

TEST_CASE("bce_with_logits keeps the digits of a small loss", "[ops]") {
  // Each target is so near to the value that its logit predicts that subtracting t x would round
  // the loss away.
  const auto expected = [](double x, double t) {
    return (x > 0 ? (1 - t) * x : -t * x) + std::log1p(std::exp(-std::abs(x)));
  };
  for (const auto& [x, t] : {std::pair{30.0f, 1.0f},
                             {-30.0f, 0.0f},
                             {1e4f, 1 - 0x1p-24f},
                             {-1e4f, 0x1p-24f},
                             {1e4f, 0.9f}}) {
    INFO("x " << x << ", t " << t);
    // The roundings are a product, a sum, 2 u for each function, and the mean.
    REQUIRE(bce_with_logits(floats({x}), floats({t})).item() ==
            Approx(expected(x, t)).epsilon(8 * 0x1p-24));
  }
}

TEST_CASE("losses over many blocks do not depend on the threads", "[ops]") {
  constexpr int64_t size = 100'003;
  std::vector<float> values(size);
  RandomStream random(1);
  double expected = 0;
  for (float& v : values) {
    v = random.uniform(-1, 3);
    expected += double(v) * double(v);
  }
  const Tensor zero = Tensor::full({size}, 0, DType::f32, test_device());
  const int threads = thread_count();
  double losses[2];
  for (const int count : {1, 3}) {
    set_thread_count(count);
    set_thread_order(count);
    const Tensor x = require_grad(floats(values));
    const Tensor loss = mse_loss(x, zero);
    losses[count / 2] = loss.item();
    backward(loss);
    const Values dx = to_doubles(grad(x));
    for (const size_t i : {size_t{0}, dx.size() / 2, dx.size() - 1})
      REQUIRE(dx[i] == Approx(2 * values[i] / size).epsilon(4 * 0x1p-24));
  }
  set_thread_count(threads);
  REQUIRE(losses[0] == losses[1]);
  // 256 additions in float32 for each run, then double.
  REQUIRE(losses[0] == Approx(expected / size).epsilon(260 * 0x1p-24));
}

TEST_CASE("a loss writes dx over x when nobody else holds x", "[ops]") {
  constexpr int64_t size = 4096;
  const Tensor leaf = require_grad(Tensor::full({size}, 1, DType::f32, test_device()));
  const Tensor target = Tensor::full({size}, 3, DType::f32, test_device());
  claim_grad(leaf);  // allocates the leaf's gradient before the peak
  zero_grad(leaf);
  for (const bool held : {false, true}) {
    Tensor x = scale(leaf, 2);
    const Tensor loss = mse_loss(x, target);
    if (!held) x.reset();
    const size_t before = ledger(test_device()).current()[Category::activations];
    ledger(test_device()).reset_peak();
    backward(loss);
    const size_t added = ledger(test_device()).peak()[Category::activations] - before;
    REQUIRE(added == Ledger::alignment + (held ? size * sizeof(float) : 0));  // the seed and dx
    if (held) REQUIRE(to_doubles(x)[0] == 2);
  }
}

TEST_CASE("the score of masks adds overlap and sizes of each plane", "[ops]") {
  constexpr size_t N = 3, K = 2, P = 7 * 1000;  // more than one block sums on cuda
  RandomStream random(3);
  std::vector<float> logits(N * K * P), masks(N * K * P);
  Values expected{1, 2, 3, 4, 5, 6};
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = i % 10 == 0 ? 0 : random.uniform(-3, 3);  // 0 is not in A
    if (i == 11) logits[i] = std::nanf("");               // nor is this
    masks[i] = static_cast<float>(random.below(2));
    double* const of_class = &expected[3 * (i / P % K)];
    of_class[0] += logits[i] > 0 && masks[i] == 1;
    of_class[1] += logits[i] > 0;
    of_class[2] += masks[i];
  }
  for (int order = 0; order < thread_orders(); ++order) {
    set_thread_order(order);
    const Tensor score = Tensor::from(Values{1, 2, 3, 4, 5, 6}, {6}, test_device());
    const Shape shape{N, K, 7, 1000};
    add_mask_score(score, floats(logits).reshape(shape), floats(masks).reshape(shape));
    REQUIRE(to_doubles(score) == expected);
  }
}

TEST_CASE("the score of masks adds overlap and sizes of each class", "[ops]") {
  constexpr size_t N = 2, K = 3, P = 5 * 130;
  RandomStream random(4);
  std::vector<float> logits(N * K * P);
  for (float& logit : logits) logit = static_cast<float>(random.below(4));  // many are equal
  for (const size_t i : {size_t{3}, P + 7}) logits[i] = std::nanf("");
  std::vector<int32_t> labels(N * P);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(K));
  Values expected(3 * K);
  for (size_t i = 0; i < N * P; ++i) {
    const auto logit = [&](size_t k) { return logits[(i / P * K + k) * P + i % P]; };
    size_t best = 0;
    bool has_nan = false;
    for (size_t k = 0; k < K; ++k) {
      has_nan = has_nan || std::isnan(logit(k));
      if (logit(k) > logit(best)) best = k;
    }
    const auto label = static_cast<size_t>(labels[i]);
    expected[3 * label] += !has_nan && best == label;
    if (!has_nan) expected[3 * best + 1] += 1;
    expected[3 * label + 2] += 1;
  }
  const Tensor score = Tensor::full({3 * K}, 0, DType::f64, test_device());
  const Tensor masks = Tensor::from(labels, {N, 1, 5, 130}, test_device());
  add_mask_score(score, floats(logits).reshape({N, K, 5, 130}), masks);
  REQUIRE(to_doubles(score) == expected);
}

TEST_CASE("the score of masks refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor score = Tensor::full({3}, 0, DType::f64, test_device());
  const Tensor x = floats({1, 2}).reshape({1, 1, 1, 2});
  REQUIRE_ERROR(add_mask_score(score, x, floats({1})), "masks f32 [1]: expected x [N, K, H, W]");
  REQUIRE_ERROR(add_mask_score(score, floats({1}), floats({1})), "x f32 [1]");
  const Tensor other = Tensor::full({2}, 0, DType::f64, test_device());
  REQUIRE_ERROR(add_mask_score(other, x, x), "expected score f64 [3]");
}

TEST_CASE("losses refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = floats({1, 2, 3});
  REQUIRE_ERROR(mse_loss(x, floats({1, 2})), "[mse_loss] x [3] and target [2]");
  REQUIRE_ERROR(l1_loss(floats({}), floats({})), "[l1_loss] x [0] and target [0]");
  REQUIRE_ERROR(mse_loss(x, require_grad(x)), "the target wants a gradient");
  REQUIRE_ERROR(bce_with_logits(floats({}), 1), "[bce_with_logits] x [0]");
  for (const double bad : {-0.5, 1.5, std::nan("")})
    REQUIRE_ERROR(bce_with_logits(x, bad), fmt::format("the target is {}", bad));
}

TEST_CASE("targets that are no probability are refused, and give NaN where no kernel can throw",
          "[ops]") {
  const Tensor x = require_grad(floats({1, 2, 3}));
  for (const float bad : {1.5f, -0.5f, std::nanf("")}) {
    const Tensor target = floats({0, 0.5f, bad});
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(bce_with_logits(x, target), fmt::format("target 2 is {}", bad));
      continue;
    }
    zero_grad(x);
    const Tensor loss = bce_with_logits(x, target);
    REQUIRE(std::isnan(loss.item()));
    backward(loss);
    const Values dx = to_doubles(grad(x));
    for (size_t i = 0; i < dx.size(); ++i) REQUIRE(std::isnan(dx[i]) == (i == 2));
  }
}

TEST_CASE("a loss that was computed elsewhere passes its gradient on", "[ops]") {
  const Values dx{1, -2, 0.5, 4};
  check_op({.name = "given_loss",
            .inputs = {{2, 2}},
            // The loss is 3 sum_i dx[i] x[i].
            .run =
                [=](const auto& in) {
                  const Tensor of_x = constant(dx, in[0]);
                  Tensor sum = Tensor::full({}, 0, wide(in[0].dtype()), in[0].device());
                  if (!is_meta(in[0].device())) {
                    const Values x = to_doubles(in[0]);
                    double L = 0;
                    for (size_t i = 0; i < x.size(); ++i) L += 3 * dx[i] * x[i];
                    sum.fill(L);
                  }
                  return given_loss(in[0], sum, of_x, 3);
                },
            .reference =
                [=](const auto& in) {
                  double L = 0;
                  for (size_t i = 0; i < dx.size(); ++i) L += 3 * dx[i] * in[0][i];
                  return Values{L};
                }});
  const Tensor x = ones({2});
  REQUIRE_ERROR(given_loss(x, ones({}), ones({3})), "expected one shape");
  REQUIRE_ERROR(given_loss(x, ones({1}), x), "a loss that is a scalar");
}

}  // namespace accrue::test
