// The pitfalls of gradient accumulation that no other file guards against: docs/pitfalls.md lists
// each with its test.

#include <cmath>
#include <limits>
#include <numeric>

#include "accumulate/accumulate.h"
#include "accumulate/decision.h"
#include "accumulate/squared_norm.h"
#include "accumulate/window.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/parallel.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/catch.h"

namespace accrue::test::pitfalls {
namespace {

using Split = std::vector<int64_t>;

constexpr int64_t N = 40, classes = 5;

// A batch with the indices of its samples.
struct NumberedBatch : Batch {
  Tensor samples;
};

NumberedBatch random_batch(DType dtype) {
  std::vector<int32_t> samples(N);
  std::iota(samples.begin(), samples.end(), 1000);
  return {test::random_batch({N, 1, 6, 6}, classes, 17, dtype),
          Tensor::from(samples, {N}, test_device())};
}

enum class NormKind { none, group, batch };

std::unique_ptr<Sequential> small_cnn(NormKind norm, double dropout = 0) {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1});
  if (norm == NormKind::group) model->add<GroupNorm>(2, 4);
  if (norm == NormKind::batch) model->add<BatchNorm>(4);
  model->add<Relu>();
  model->add<Flatten>();
  if (dropout > 0) model->add<Dropout>(dropout);
  model->add<Linear>(4 * 36, classes);
  return model;
}

struct Learner {
  std::unique_ptr<Sequential> model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  Learner(std::unique_ptr<Sequential> net, DType dtype, WindowOptions options)
      : model(std::move(net)),
        parameters(place(*model, dtype, test_device(), 5)),
        optimizer(adam(parameters)),
        window(*optimizer, ScheduleOptions{}, options) {}

  void accumulate(const NumberedBatch& batch, const Split& split, int64_t epoch = 0) {
    int64_t begin = 0;
    for (const int64_t n : split) {
      const int64_t end = begin + n;
      const Pass pass{.seed = 3, .epoch = epoch, .samples = batch.samples.slice(begin, end)};
      window.backward(
          cross_entropy((*model)(batch.x.slice(begin, end), pass), batch.labels.slice(begin, end)),
          n);
      begin = end;
    }
  }
};

// The mean gradient of the batch's N samples, in micro-batches by `split`, in double.
std::vector<double> gradient_of(std::unique_ptr<Sequential> model, const Split& split,
                                int64_t epoch = 0) {
  Learner learner(std::move(model), DType::f64, {.effective_batch_size = N});
  learner.accumulate(random_batch(DType::f64), split, epoch);
  return to_doubles(learner.parameters.gradients());
}

}  // namespace

TEST_CASE("an accumulator counts past 256", "[pitfalls]") {
  const Tensor w = require_grad(Tensor::full({1, 1}, 1, DType::f32, test_device()));
  const Tensor b = require_grad(Tensor::full({1}, 1, DType::f32, test_device()));
  const Tensor x = Tensor::full({1, 1}, 1, DType::f32, test_device());
  for (int i = 0; i < 300; ++i) backward(linear(x, w, b));
  REQUIRE(grad(w).item() == 300);
  REQUIRE(grad(b).item() == 300);
}

TEST_CASE("the logged loss and norm are means over samples, for every split", "[pitfalls]") {
  const auto report = [](const Split& split) {
    Learner learner(small_cnn(NormKind::none), DType::f64, {.effective_batch_size = 64});
    learner.accumulate(random_batch(DType::f64), split);
    return learner.window.step();
  };
  const StepReport whole = report({N});
  for (const Split& split : {Split{16, 16, 8}, Split{39, 1}, Split(N, 1)}) {
    REQUIRE(std::abs(report(split).loss - whole.loss) <= 1e-12);
    REQUIRE(std::abs(report(split).grad_norm - whole.grad_norm) <= 1e-12);
  }
}

TEST_CASE("the peak is parameters, moments, gradients and one micro-batch, to the byte",
          "[pitfalls][memory]") {
  const auto peak_of = [](Device device, int64_t m, int64_t K, Strategy strategy) {
    const auto model = make_model({.kind = ModelKind::mlp});
    Parameters parameters = place(*model, DType::f32, device, 1);
    const auto optimizer = adam(parameters);
    Window window(*optimizer, ScheduleOptions{},
                  {.effective_batch_size = m * K, .strategy = strategy});
    const Tensor x = Tensor::full({m, 784}, 0.1, DType::f32, device, Category::data);
    const Tensor labels =
        Tensor::from(std::vector<int32_t>(static_cast<size_t>(m), 1), {m}, device);
    ledger(device).reset_peak();
    // Gradients that outlive their window would show in the second one.
    for (int windows = 0; windows < 2; ++windows) {
      for (int64_t i = 0; i < K; ++i) {
        // A separate statement: the logits must not live until the end of backward.
        const Tensor loss = cross_entropy((*model)(x), labels);
        window.backward(loss, m);
      }
      window.step();
    }
    return ledger(device).peak();
  };
  constexpr size_t P = 4 * 567'440;  // 567,434 parameters; the last bias of 10 fills a cache line
  // The window's own memory: its state, and partial sums of the norm.
  const size_t counters =
      (sizeof(WindowState) + Ledger::alignment - 1) / Ledger::alignment * Ledger::alignment +
      norm_partials * sizeof(double);
  const size_t matmul_scratch = test_device() == Device::cuda ? 4 << 20 : 0;  // cuBLASLt's
  for (const Device device : {test_device(), meta_of(test_device())})
    for (const int64_t m : {1, 16})
      for (const int64_t K : {1, 4})
        for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
          INFO(name(device) << ", " << m << " x " << K);
          const Usage peak = peak_of(device, m, K, strategy);
          REQUIRE(peak[Category::parameters] == P);
          REQUIRE(peak[Category::optimizer] == 2 * P + Ledger::alignment);  // moments, step count
          REQUIRE(peak[Category::gradients] == (strategy == Strategy::fused ? P : 2 * P));
          // The peak is in the second layer's backward: its input of 512 elements, the input's
          // gradient, and the gradient of its output of 256 elements. The loss comes on top.
          const size_t kept = static_cast<size_t>(m) * 4 * (512 + 512 + 256);
          REQUIRE(peak[Category::activations] == kept + Ledger::alignment);
          REQUIRE(peak[Category::workspace] == counters + matmul_scratch);
        }
}

TEST_CASE("GroupNorm does not see the split, BatchNorm does", "[pitfalls]") {
  const Split whole{N}, parts{16, 16, 8};
  REQUIRE(largest_difference(gradient_of(small_cnn(NormKind::group), parts),
                             gradient_of(small_cnn(NormKind::group), whole)) <= 1e-12);
  REQUIRE(largest_difference(gradient_of(small_cnn(NormKind::batch), parts),
                             gradient_of(small_cnn(NormKind::batch), whole)) > 1e-4);
}

TEST_CASE("dropout's masks depend on the sample and the epoch, not on the split", "[pitfalls]") {
  const auto gradient = [](const Split& split, int64_t epoch) {
    return gradient_of(small_cnn(NormKind::none, 0.5), split, epoch);
  };
  const auto whole = gradient({N}, 0);
  for (const Split& split : {Split{16, 16, 8}, Split{39, 1}, Split(N, 1)})
    REQUIRE(largest_difference(gradient(split, 0), whole) <= 1e-12);
  REQUIRE(largest_difference(gradient({N}, 1), whole) > 1e-4);
}

TEST_CASE("a skipped window leaves BatchNorm's statistics as they were", "[pitfalls]") {
  Learner learner(small_cnn(NormKind::batch), DType::f32, {.effective_batch_size = N});
  const Tensor& statistics = learner.parameters.buffers();
  const auto initial = to_doubles(statistics);
  learner.accumulate(random_batch(DType::f32), {N});
  REQUIRE_FALSE(learner.window.step().skipped);
  const auto after_one_step = to_doubles(statistics);
  REQUIRE(after_one_step != initial);

  const NumberedBatch bad = random_batch(DType::f32);
  bad.x.slice(20, 21).fill(std::numeric_limits<double>::infinity());
  learner.accumulate(bad, {16, 16, 8});
  REQUIRE(learner.window.step().skipped);
  REQUIRE(to_doubles(statistics) == after_one_step);

  (*learner.model)(random_batch(DType::f32).x, Pass::eval());
  REQUIRE(to_doubles(statistics) == after_one_step);
}

TEST_CASE("a window that ran out of memory leaves no trace", "[pitfalls][memory]") {
  const auto weights_after = [](bool disturbed) {
    Learner learner(small_cnn(NormKind::group), DType::f32, {.effective_batch_size = N});
    const NumberedBatch batch = random_batch(DType::f32);
    if (disturbed) {
      learner.accumulate(batch, {16});
      Ledger& account = ledger(test_device());
      // Enough for the forward of 8 samples, but not for its backward.
      account.set_limit(account.current().total() + 2 * 8 * 4 * 36 * sizeof(float) + 4096);
      REQUIRE_THROWS_AS(learner.accumulate(batch, {8}), OutOfMemory);
      account.set_limit(std::nullopt);
      learner.window.abandon();
    }
    learner.accumulate(batch, {16, 24});
    learner.window.step();
    return to_doubles(learner.parameters.values());
  };
  REQUIRE(weights_after(true) == weights_after(false));
}

TEST_CASE("a finite gradient too large to be squared is clipped, not skipped", "[pitfalls]") {
  Sequential model;
  model.add<Linear>(1, 1);
  Parameters parameters = place(model, DType::f32, test_device(), 1);
  const auto optimizer = sgd(parameters);
  Window window(*optimizer, ScheduleOptions{.base = 1},
                {.effective_batch_size = 2, .clip_norm = 0.5});
  const double before = to_doubles(parameters.values())[0];
  for (int i = 0; i < 2; ++i)
    window.backward(model(Tensor::full({1, 1}, 1e30, DType::f32, test_device())), 1);
  const StepReport report = window.step();
  REQUIRE_FALSE(report.skipped);
  REQUIRE(report.grad_norm == Approx(1e30));
  REQUIRE(to_doubles(parameters.values())[0] == Approx(before - 0.5));
}

TEST_CASE("a gradient too large for what the step computes with it is not stepped by",
          "[pitfalls]") {
  // One sample came instead of 1000: the sum is finite, but its mean is 1000 times as large. 1e39
  // overflows in float32. So does the square of 1e20, which would stay in Adam's moment for good.
  for (const double slope : {1e39, 1e20}) {
    Sequential model;
    model.add<Linear>(1, 1);
    Parameters parameters = place(model, DType::f32, test_device(), 1);
    parameters.values().fill(0);  // so the loss is finite
    const auto optimizer = adam(parameters);
    Window window(*optimizer, ScheduleOptions{}, {.effective_batch_size = 1000});
    const Tensor x = Tensor::full({1, 1}, slope / 10, DType::f32, test_device());
    window.backward(scale(model(x), 10), 1);
    const StepReport report = window.step();
    REQUIRE(report.skipped);
    REQUIRE(report.step == 0);
    REQUIRE(report.grad_norm == Approx(slope));
    const std::vector<double> untouched(to_doubles(parameters.values()).size());
    REQUIRE(to_doubles(parameters.values()) == untouched);
    for (const auto& [name, moment] : optimizer->state()) REQUIRE(to_doubles(moment) == untouched);
  }
}

TEST_CASE("the norm of a gradient does not depend on the threads", "[pitfalls]") {
  constexpr int64_t P = 300'001;
  std::vector<float> values(P);
  RandomStream random(1);
  for (float& v : values) v = random.normal();
  const Tensor g = Tensor::from(values, {P}, test_device());
  const auto sum_of_squares = [&](int threads) {
    set_thread_count(threads);
    set_thread_order(threads);
    const Tensor partials = Tensor::empty({norm_partials}, DType::f64, test_device());
    squared_norm({partials.view(), 0}, g.view());
    double sum = 0;
    for (const double partial : to_doubles(partials)) sum += partial;
    return sum;
  };
  const int threads = thread_count();
  const double alone = sum_of_squares(1);
  for (const int count : {2, 3}) REQUIRE(sum_of_squares(count) == alone);
  set_thread_count(threads);
  // Squares of normal numbers have mean 1 and variance 2.
  REQUIRE(std::abs(alone - double(P)) < 5 * std::sqrt(2.0 * double(P)));
}

}  // namespace accrue::test::pitfalls
