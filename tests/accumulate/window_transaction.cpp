// A window is a transaction: it steps once with all its samples, or leaves no trace, and refuses
// calls that would break this.

#include <cmath>
#include <limits>

#include "kernels/arithmetic.h"
#include "layers/layers.h"
#include "tests/accumulate/window_learner.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("a window with a non-finite gradient leaves no trace", "[window]") {
  Learner learner(DType::f32);
  learner.accumulate(random_batch(N, DType::f32, 1), {64});
  learner.window.step();
  const auto weights = to_doubles(learner.parameters.values());
  const auto m = to_doubles(learner.optimizer->state()[0].second);

  const Batch bad = random_batch(N, DType::f32, 2);
  bad.x.slice(20, 21).fill(std::numeric_limits<double>::infinity());
  learner.accumulate(bad, {16, 16, 16, 16});
  const StepReport report = learner.window.step();
  REQUIRE(report.skipped);
  REQUIRE(report.step == 1);
  REQUIRE(learner.window.steps() == 1);
  REQUIRE(learner.optimizer->steps() == 1);
  REQUIRE(learner.window.samples() == 0);
  REQUIRE(to_doubles(learner.parameters.values()) == weights);
  REQUIRE(to_doubles(learner.optimizer->state()[0].second) == m);

  learner.accumulate(random_batch(N, DType::f32, 3), {64});
  REQUIRE_FALSE(learner.window.step().skipped);
}

TEST_CASE("an abandoned window leaves no trace", "[window]") {
  const auto weights_after = [](bool disturbed) {
    Learner learner(DType::f32);
    if (disturbed) {
      learner.accumulate(random_batch(N, DType::f32, 9), {24, 24});
      learner.window.abandon();
    }
    learner.accumulate(random_batch(N, DType::f32, 1), {32, 32});
    learner.window.step();
    return to_doubles(learner.parameters.values());
  };
  REQUIRE(weights_after(true) == weights_after(false));
}

TEST_CASE("the window refuses what would break it", "[window]") {
  Learner learner(DType::f32);
  REQUIRE_ERROR(learner.window.step(), "without micro-batches");
  const Batch batch = random_batch(N, DType::f32, 1);
  learner.accumulate(batch, {60});
  REQUIRE_ERROR(learner.window.backward(learner.loss(batch, 0, 8), 8), "8 more do not fit");
  REQUIRE_ERROR(learner.window.backward(learner.loss(batch, 0, 1), 0), "expected 1 or more");
  REQUIRE_ERROR(Learner(DType::f32, {.effective_batch_size = 0}), "expected 1 or more");
  REQUIRE_ERROR(Learner(DType::f32, {.clip_norm = -1}), "clip norm -1");
}

TEST_CASE("every counter moves once per window, not per micro-batch", "[window]") {
  auto model = make_mlp(sizes);
  Parameters parameters = place(*model, DType::f32, test_device(), 1);
  const auto optimizer = adamw(parameters, {.weight_decay = 0.5});
  Window window(*optimizer, ScheduleOptions{.base = 0.1, .warmup_steps = 10},
                {.effective_batch_size = N});
  const double before = to_doubles(parameters.values())[0];
  const Batch batch = random_batch(N, DType::f32, 1);
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor loss =
        cross_entropy((*model)(batch.x.slice(i, i + 1)), batch.labels.slice(i, i + 1));
    window.backward(loss, 1);
    REQUIRE(window.lr() == 0.1 / 10);
  }
  REQUIRE(to_doubles(parameters.values())[0] == before);
  window.step();
  REQUIRE(optimizer->steps() == 1);
  REQUIRE(window.lr() == 0.1 * 2 / 10);
}

TEST_CASE("evaluation does not touch the window", "[window]") {
  Learner learner(DType::f32);
  const Batch batch = random_batch(N, DType::f32, 1);
  learner.accumulate(batch, {32});
  {
    const NoGrad no_grad;
    for (int i = 0; i < 5; ++i) learner.loss(batch, 0, 64);
  }
  REQUIRE(learner.window.samples() == 32);
  REQUIRE(learner.window.micro_batches() == 1);
}

TEST_CASE("a micro-step is one backward", "[window]") {
  Learner learner(DType::f32);
  const Batch batch = random_batch(N, DType::f32, 1);
  REQUIRE_THROWS_WITH(
      learner.window.micro_step(16, 0, [] {}),
      "a micro-step called backward() 0 times: expected once, with its losses added "
      "up");
  REQUIRE_THROWS_WITH(
      learner.window.micro_step(16, 0,
                                [&] {
                                  for (int i = 0; i < 2; ++i)
                                    learner.window.backward(learner.loss(batch, 0, 16), 16);
                                }),
      "a micro-step called backward() 2 times: expected once, with its losses added "
      "up");
}

TEST_CASE("frozen parameters are not stepped", "[window]") {
  Learner learner(DType::f32);
  learner.parameters.freeze("0.");
  const auto before = to_doubles(learner.parameters.values());
  learner.accumulate(random_batch(N, DType::f32, 1), {64});
  learner.window.step();
  const auto after = to_doubles(learner.parameters.values());
  const auto second = static_cast<size_t>(learner.parameters.entries()[2].offset);
  REQUIRE(
      std::equal(before.begin(), before.begin() + static_cast<ptrdiff_t>(second), after.begin()));
  REQUIRE(before[second] != after[second]);
}

TEST_CASE("a gradient that the caller computes does not join a window's", "[window]") {
  const Batch batch = random_batch(N, DType::f32, 1);
  for (const Strategy strategy : {Strategy::fused, Strategy::separate, Strategy::bf16_sum,
                                  Strategy::moments, Strategy::step_in_backward}) {
    Learner learner(DType::f32, {.effective_batch_size = N, .strategy = strategy});
    backward(learner.loss(batch, 0, 8));
    REQUIRE_ERROR(learner.window.backward(learner.loss(batch, 0, N), N),
                  "'0.weight' has a gradient before the first micro-batch of a window");
    REQUIRE_ERROR(learner.window.micro_step(N, 0, [] {}), "before the first micro-batch");
    learner.parameters.zero_grad();
    learner.window.backward(learner.loss(batch, 0, N), N);
    learner.window.step();
  }
  // It does not join in the middle of a window, either.
  Learner learner(DType::f32);
  learner.accumulate(batch, {32});
  REQUIRE_ERROR(backward(learner.loss(batch, 0, 8)), "that a window is adding up");
  learner.window.abandon();
  learner.accumulate(batch, {64});
  learner.window.step();
  backward(learner.loss(batch, 0, 8));
}

TEST_CASE("a step makes tensors that a backward saved of the weights invalid", "[window]") {
  Learner learner(DType::f32);
  const Batch batch = random_batch(N, DType::f32, 1);
  const Tensor early = learner.loss(batch, 0, 8);
  learner.accumulate(batch, {64});
  learner.window.step();
  REQUIRE_ERROR(learner.window.backward(early, 8), "but somebody has overwritten it since");
}

TEST_CASE("a window without its optimizer is an error", "[window]") {
  Learner learner(DType::f32);
  const Batch batch = random_batch(N, DType::f32, 1);
  auto optimizer = adam(learner.parameters);
  Window window(*optimizer, ScheduleOptions{}, {.effective_batch_size = N});
  optimizer.reset();
  REQUIRE_ERROR(window.backward(learner.loss(batch, 0, 8), 8), "the optimizer of a window is gone");
  REQUIRE_ERROR(window.step(), "the optimizer of a window is gone");
}

}  // namespace accrue::test
