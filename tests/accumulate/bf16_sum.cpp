// Strategy bf16-sum compared with fused, and as a transaction. accumulate_bf16.cpp tests the
// arithmetic of its sum.

#include <cmath>
#include <cstring>
#include <limits>

#include "accumulate/accumulate_bf16.h"
#include "tests/accumulate/window_learner.h"
#include "tests/support/catch.h"
#include "tests/support/thread_scope.h"

namespace accrue::test::bf16_sum {
namespace {

const WindowOptions in_bf16{.effective_batch_size = N, .strategy = Strategy::bf16_sum};

}  // namespace

TEST_CASE("a window of bf16-sum is that of fused, up to the roundings of its sum", "[strategies]") {
  const Split split{24, 24, 16};
  const Batch batch = random_batch(N, DType::f32, 1);
  Learner fused(DType::f32), narrow(DType::f32, in_bf16);
  std::vector<double> sum, error(size_t(fused.parameters.values().numel()));
  int64_t begin = 0;
  for (const int64_t n : split) {
    fused.window.backward(fused.loss(batch, begin, begin + n), n);
    narrow.window.backward(narrow.loss(batch, begin, begin + n), n);
    begin += n;
    sum = to_doubles(fused.parameters.gradients());
    // A rounding errs by less than 2^-7 of the rounded number, which contains the earlier errors.
    // 2^-20 allows for float32 sums in another order.
    for (size_t i = 0; i < sum.size(); ++i)
      error[i] += (std::abs(sum[i]) + error[i]) * 0x1p-7 + 0x1p-20;
  }
  const StepReport expected = fused.window.step(), report = narrow.window.step();
  double square = 0;
  for (const double e : error) square += e * e;
  REQUIRE(report.loss == expected.loss);
  REQUIRE(std::abs(report.grad_norm - expected.grad_norm) <= std::sqrt(square));
  size_t differ = 0;
  const auto entries = fused.parameters.entries();
  const auto gradients = narrow.window.last_gradients();
  for (size_t p = 0; p < entries.size(); ++p) {
    const std::vector<double> of_one = to_doubles(gradients[p].sum);
    for (size_t i = 0; i < of_one.size(); ++i) {
      const size_t at = size_t(entries[p].offset) + i;
      INFO(gradients[p].name << ' ' << i);
      REQUIRE(std::abs(of_one[i] - sum[at]) <= error[at]);
      differ += std::abs(of_one[i] - sum[at]) > 0x1p-10 * std::abs(sum[at]);
    }
  }
  REQUIRE(differ > sum.size() / 4);
}

TEST_CASE("the sum of one micro-batch is its gradient, rounded by the bits of its key",
          "[strategies]") {
  WindowOptions options = in_bf16;
  options.seed = 5;
  const Batch batch = random_batch(N, DType::f32, 1);
  Learner fused(DType::f32), narrow(DType::f32, options);
  fused.accumulate(batch, {N});
  narrow.accumulate(batch, {N});
  narrow.window.step();
  const StepOutcome first{.weight = double(N), .steps = 0};
  std::vector<uint8_t> bytes(sizeof(first));
  std::memcpy(bytes.data(), &first, sizeof(first));
  const Tensor window = Tensor::from(bytes, {sizeof(first)}, test_device());
  const auto gradients = narrow.window.last_gradients();
  for (size_t p = 0; p < gradients.size(); ++p) {
    const auto [begin, end] = fused.parameters.entries()[p].range();
    const Tensor expected = Tensor::empty({end - begin}, DType::bf16, test_device());
    accumulate_bf16({expected.view(), 0}, fused.parameters.gradients().slice(begin, end).view(),
                    {options.seed, begin, window.view()});
    INFO(gradients[p].name);
    REQUIRE(to_doubles(gradients[p].sum) == to_doubles(expected));
  }
}

TEST_CASE("bf16-sum takes back a window, and reads nothing of the one before", "[strategies]") {
  enum class Disturbed { no, by_abandoning, by_overflow, by_old_sums };
  const auto weights_after = [](Disturbed how) {
    Learner learner(DType::f32, in_bf16);
    learner.accumulate(random_batch(N, DType::f32, 1), {32, 32});
    learner.window.step();
    if (how == Disturbed::by_abandoning) {
      learner.accumulate(random_batch(N, DType::f32, 9), {24, 24});
      learner.window.abandon();
    }
    if (how == Disturbed::by_overflow) {
      const Batch bad = random_batch(N, DType::f32, 2);
      bad.x.slice(20, 21).fill(std::numeric_limits<double>::infinity());
      learner.accumulate(bad, {16, 16, 32});
      REQUIRE(learner.window.step().skipped);
    }
    if (how == Disturbed::by_old_sums)
      for (const Window::Gradient& gradient : learner.window.last_gradients())
        gradient.sum.fill(NAN);
    learner.accumulate(random_batch(N, DType::f32, 3), {24, 24, 16});
    REQUIRE_FALSE(learner.window.step().skipped);
    return to_doubles(learner.parameters.values());
  };
  const std::vector<double> expected = weights_after(Disturbed::no);
  for (const Disturbed how :
       {Disturbed::by_abandoning, Disturbed::by_overflow, Disturbed::by_old_sums}) {
    INFO(int(how));
    REQUIRE(weights_after(how) == expected);
  }
}

TEST_CASE("bf16-sum has the same bits for any number of threads, others for another seed",
          "[strategies]") {
  if (test_device() != Device::cpu) return;
  const auto weights_after = [](int threads, uint64_t seed) {
    const ThreadScope scope(threads);
    constexpr std::array<int64_t, 4> wide{features, 256, 256, classes};
    const auto model = make_mlp(wide);
    Parameters parameters =
        place(*model, DType::f32, test_device(), 3, gradient_storage(in_bf16.strategy));
    const auto optimizer = sgd(parameters);
    WindowOptions options = in_bf16;
    options.seed = seed;
    Window window(*optimizer, ScheduleOptions{.base = 0.1}, options);
    for (uint64_t step = 0; step < 2; ++step) {
      const Batch batch = random_batch(N, DType::f32, step);
      for (const int64_t begin : {0, 32})
        window.backward(cross_entropy((*model)(batch.x.slice(begin, begin + 32)),
                                      batch.labels.slice(begin, begin + 32)),
                        32);
      window.step();
    }
    return to_doubles(parameters.values());
  };
  const std::vector<double> one = weights_after(1, 1);
  for (const int threads : {2, 8}) REQUIRE(weights_after(threads, 1) == one);
  REQUIRE(weights_after(1, 2) != one);
}

TEST_CASE("bf16-sum refuses parameters in float64", "[strategies]") {
  REQUIRE_ERROR(Learner(DType::f64, in_bf16), "expected parameters in f32, not f64");
}

}  // namespace accrue::test::bf16_sum
