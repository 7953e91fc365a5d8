// Several losses of one window.

#include "accumulate/summed_losses.h"

#include "kernels/losses.h"
#include "tests/accumulate/window_learner.h"
#include "tests/support/catch.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor number(double value) { return Tensor::full({}, value, DType::f64, test_device()); }

}  // namespace

TEST_CASE("several losses of one weight are one loss for every split", "[window]") {
  const Batch batch = random_batch(N, DType::f64, 5);
  const auto trained = [&](const Split& split) {
    Learner learner(DType::f64);
    int64_t begin = 0;
    for (const int64_t n : split) {
      const Tensor answers = (*learner.model)(batch.x.slice(begin, begin + n));
      const Tensor zero = Tensor::full(answers.shape(), 0, DType::f64, test_device());
      const auto [loss, weight] = sum_of_losses(std::vector<NamedLoss>{
          {"labels", cross_entropy(answers, batch.labels.slice(begin, begin + n)), n},
          {"size", mse_loss(answers, zero), n, 0.5}});
      REQUIRE(loss.terms.size() == 2);
      learner.window.backward(loss, weight);
      begin += n;
    }
    const StepReport report = learner.window.step();
    Values all = to_doubles(learner.parameters.values());
    all.push_back(report.loss);
    all.push_back(report.terms.at(0) + 0.5 * report.terms.at(1) - report.loss);
    return all;
  };
  const Values whole = trained({64});
  REQUIRE(std::abs(whole.back()) <= 1e-14);
  for (const Split& split : splits) REQUIRE(largest_difference(trained(split), whole) <= 1e-13);
}

TEST_CASE("two losses that count differently are refused by name", "[window]") {
  const Tensor loss = ones({}), three = number(3);
  const auto sum = [&](const Weight& a, const Weight& b) {
    return sum_of_losses(std::vector<NamedLoss>{{"samples", loss, a}, {"tokens", loss, b}});
  };
  REQUIRE(sum(4, 4).weight.counted == 4);
  REQUIRE(sum({4, three}, {4, three}).weight.on_device.defined());
  REQUIRE_ERROR(sum(4, {4, 3.5}), "samples counts 4, but tokens counts 3.5: a window divides");
  REQUIRE_ERROR(sum(4, {4, three}), "tokens counts a number on the device");
  REQUIRE_ERROR(sum({4, three}, {4, number(3)}), "expected losses that are means over the same");
  REQUIRE_ERROR(sum_of_losses({}), "a sum of no losses");
}

}  // namespace accrue::test
