// Models that compute in 16 bits, and the loss scale for float16.

#include <bit>
#include <cmath>

#include "accumulate/window.h"
#include "core/autograd.h"
#include "core/random.h"
#include "images/digits.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/linear.h"
#include "kernels/step/round_copies.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/memory_prediction.h"
#include "train/skipped_windows.h"
#include "train/training.h"

namespace accrue::test::precision {
namespace {

using Values = std::vector<double>;

constexpr int64_t N = 16, features = 12, classes = 5;

// Rows of a classification task. The rows [loud_begin, loud_end) have values nearly as large as
// float16 allows.
struct Rows {
  Tensor x, labels;

  Rows(DType dtype, int64_t loud_begin = 0, int64_t loud_end = 0) {
    RandomStream random(8);
    x = Tensor::empty({N, features}, dtype, Device::cpu);
    std::vector<int32_t> label(N);
    dispatch_floating(dtype, [&]<class T>() {
      for (int64_t n = 0; n < N; ++n) {
        label[static_cast<size_t>(n)] = static_cast<int32_t>(random.below(classes));
        for (int64_t i = 0; i < features; ++i) {
          const bool loud = loud_begin <= n && n < loud_end;
          x.span<T>()[static_cast<size_t>(n * features + i)] =
              T(static_cast<Wide<T>>(random.uniform(-1, 1) * (loud ? 6e4f : 1)));
        }
      }
    });
    x = x.to(test_device());
    labels = Tensor::from(label, {N}, test_device());
  }
};

struct Learner {
  std::unique_ptr<Sequential> model = std::make_unique<Sequential>();
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  Learner(DType dtype, WindowOptions options)
      : parameters((model->add<Linear>(features, 8, Activation::relu, InitScheme::kaiming),
                    model->add<Linear>(8, classes, Activation::none, InitScheme::kaiming),
                    place(*model, dtype, test_device(), 5))),
        optimizer(adam(parameters)),
        window(*optimizer, ScheduleOptions{}, options) {}

  void accumulate(const Rows& rows, int64_t begin, int64_t end) {
    window.backward(
        cross_entropy((*model)(rows.x.slice(begin, end)), rows.labels.slice(begin, end)),
        end - begin);
  }
  StepReport run_window(const Rows& rows) {
    for (int64_t begin = 0; begin < N; begin += N / 4) accumulate(rows, begin, begin + N / 4);
    return window.step();
  }
  std::vector<Values> state() const {
    std::vector<Values> all{to_doubles(parameters.values())};
    for (const auto& [name, tensor] : optimizer->state()) all.push_back(to_doubles(tensor));
    return all;
  }
};

Values rounded(const Tensor& values, DType dtype) {
  const Tensor host = on_host(values);
  Values result;
  dispatch_floating(dtype, [&]<class T>() {
    for (const float v : host.span<float>()) result.push_back(T(v));
  });
  return result;
}

const std::vector<DType> both{DType::f16, DType::bf16};

}  // namespace

// In bfloat16 256 + 1 = 256. A weight's gradient is a sum in float32, whatever the dtype of its
// terms.
TEST_CASE("a 16-bit model's accumulator counts past 256", "[precision]") {
  for (const DType dtype : both) {
    const Tensor w = require_grad(Tensor::full({1, 1}, 1, DType::f32, test_device()));
    const Tensor b = require_grad(Tensor::full({1}, 1, DType::f32, test_device()));
    for (const Tensor& parameter : {w, b})
      parameter.variable()->copy = Tensor::full(parameter.shape(), 1, dtype, test_device());
    const Tensor x = Tensor::full({1, 1}, 1, dtype, test_device());
    for (int i = 0; i < 300; ++i) backward(linear(x, w, b));
    REQUIRE(grad(w).item() == 300);
    REQUIRE(grad(b).item() == 300);
  }
}

TEST_CASE("16-bit weights are the rounded float32 ones, after every step", "[precision]") {
  for (const DType dtype : both) {
    const Rows rows(dtype);
    for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
      Learner learner(dtype, {.effective_batch_size = N, .strategy = strategy, .ema_decay = 0.9});
      const auto agree = [&] {
        return to_doubles(learner.parameters.copies()) ==
               rounded(learner.parameters.values(), dtype);
      };
      REQUIRE(agree());
      const Values before = to_doubles(learner.parameters.copies());
      for (int step = 0; step < 3; ++step) {
        learner.run_window(rows);
        REQUIRE(agree());
      }
      REQUIRE(to_doubles(learner.parameters.copies()) != before);
      learner.window.exchange_averages();
      REQUIRE(agree());
    }
  }
}

TEST_CASE("an overflow in micro-batch 3 of 4 leaves no trace, and the run recovers",
          "[precision]") {
  const Rows quiet(DType::f16), loud(DType::f16, 8, 12);
  Learner learner(DType::f16, {.effective_batch_size = N, .loss_scale = LossScale::dynamic()});
  while (learner.run_window(quiet).skipped) {
  }
  const auto before = learner.state();
  const int64_t steps = learner.window.steps();
  const StepReport overflowed = learner.run_window(loud);
  REQUIRE(overflowed.skipped);
  REQUIRE(overflowed.overflow);
  REQUIRE(learner.window.steps() == steps);
  REQUIRE(learner.optimizer->steps() == steps);
  REQUIRE(learner.state() == before);
  // However far the scale has come down, training continues from the same weights.
  const StepReport next = learner.run_window(quiet);
  REQUIRE_FALSE(next.skipped);
  REQUIRE(next.loss_scale == overflowed.loss_scale / 2);
  REQUIRE(next.step == steps + 1);
  REQUIRE(learner.state() != before);
}

TEST_CASE("a micro-batch that overflows can be dropped from its window", "[precision]") {
  const Rows quiet(DType::f16), loud(DType::f16, 8, 12);
  const WindowOptions separate{.effective_batch_size = N, .strategy = Strategy::separate};
  WindowOptions dropping = separate;
  dropping.on_overflow = OnOverflow::drop_micro_batch;
  Learner dropped(DType::f16, dropping), without(DType::f16, separate);
  for (int window = 0; window < 2; ++window) {
    const StepReport report = dropped.run_window(loud);
    REQUIRE(report.dropped_samples == 4);
    REQUIRE(report.samples == 12);
    REQUIRE_FALSE(report.skipped);
    REQUIRE(report.overflow);
    for (const int64_t begin : {0, 4, 12}) without.accumulate(quiet, begin, begin + 4);
    const StepReport expected = without.window.step();
    REQUIRE(report.loss == expected.loss);
    REQUIRE(report.grad_norm == expected.grad_norm);
    REQUIRE(dropped.state() == without.state());
  }
  const auto before = dropped.state();
  const StepReport nothing_left = dropped.run_window(Rows(DType::f16, 0, N));
  REQUIRE(nothing_left.skipped);
  REQUIRE(nothing_left.dropped_samples == N);
  REQUIRE(dropped.state() == before);
}

// 1/N is rounded once, whatever the micro-batch: the gradient of a micro-batch is computed as its
// share of the window's.
TEST_CASE("separate in 16 bits depends on the split as little as fused", "[precision]") {
  for (const DType dtype : both) {
    const Rows rows(dtype);
    for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
      const auto norm = [&](std::initializer_list<int64_t> split) {
        Learner learner(dtype, {.effective_batch_size = N, .strategy = strategy});
        int64_t begin = 0;
        for (const int64_t n : split) learner.accumulate(rows, begin, begin + n), begin += n;
        return learner.window.step().grad_norm;
      };
      const double whole = norm({N});
      REQUIRE(norm({7, 6, 3}) == Approx(whole).epsilon(1e-6));
      REQUIRE(norm({5, 5, 5, 1}) == Approx(whole).epsilon(1e-6));
    }
  }
}

// PyTorch's rules, step by step, and the hysteresis, which PyTorch does not have.
TEST_CASE("the loss scale backs off and grows", "[precision]") {
  const Rows quiet(DType::f16), loud(DType::f16, 8, 12);
  LossScale scale = LossScale::dynamic();
  scale.initial = 64;
  scale.interval = 3;
  const auto scales_of = [&](int64_t hysteresis, const std::vector<bool>& overflows) {
    scale.hysteresis = hysteresis;
    Learner learner(DType::f16, {.effective_batch_size = N, .loss_scale = scale});
    Values scales;
    for (const bool overflow : overflows)
      scales.push_back(learner.run_window(overflow ? loud : quiet).loss_scale);
    return scales;
  };
  const std::vector<bool> overflows{false, false, true, false, false,
                                    false, false, true, true,  false};
  const Values once{64, 64, 64, 32, 32, 32, 64, 64, 32, 16};
  REQUIRE(scales_of(1, overflows) == once);
  const Values twice{64, 64, 64, 64, 64, 64, 128, 128, 128, 64};
  REQUIRE(scales_of(2, overflows) == twice);
}

TEST_CASE("the loss scale stops falling where it cures nothing", "[precision]") {
  const Rows loud(DType::f16, 8, 12);
  LossScale scale = LossScale::dynamic();
  scale.initial = 4;
  Learner learner(DType::f16, {.effective_batch_size = N,
                               .strategy = Strategy::separate,
                               .loss_scale = scale,
                               .on_overflow = OnOverflow::drop_micro_batch});
  Values scales;
  for (int window = 0; window < 5; ++window) {
    const StepReport report = learner.run_window(loud);
    REQUIRE(report.dropped_samples == 4);
    scales.push_back(report.loss_scale);
  }
  REQUIRE(scales == Values{4, 2, 1, 1, 1});
}

TEST_CASE("a loss scale changes nothing but the roundings", "[precision]") {
  // Powers of two shift only exponents, so in float32 nothing is rounded otherwise.
  const Rows rows(DType::f32);
  Learner plain(DType::f32, {.effective_batch_size = N});
  LossScale scale = LossScale::dynamic();
  scale.interval = 2;
  Learner scaled(DType::f32, {.effective_batch_size = N, .loss_scale = scale});
  for (int step = 0; step < 5; ++step) {
    plain.run_window(rows);
    scaled.run_window(rows);
  }
  REQUIRE(scaled.state() == plain.state());
}

TEST_CASE("loss scales that are impossible, or exclude a strategy, are refused", "[precision]") {
  const auto make = [](WindowOptions options) {
    Sequential model;
    model.add<Linear>(2, 2, Activation::none, InitScheme::kaiming);
    Parameters parameters =
        place(model, DType::f32, test_device(), 5, gradient_storage(options.strategy));
    const auto optimizer = adam(parameters);
    Window(*optimizer, ScheduleOptions{}, options);
  };
  for (const Strategy strategy : {Strategy::moments, Strategy::step_in_backward})
    REQUIRE_ERROR(make({.strategy = strategy, .loss_scale = LossScale::dynamic()}),
                  "expected a constant loss scale, or another strategy");
  REQUIRE_ERROR(make({.on_overflow = OnOverflow::drop_micro_batch}), "expected strategy separate");
  LossScale shrinking = LossScale::dynamic();
  shrinking.growth = 0.5;
  REQUIRE_ERROR(make({.loss_scale = shrinking}), "grows by 0.5");
  LossScale stuck = LossScale::dynamic();
  stuck.backoff = 1;
  REQUIRE_ERROR(make({.loss_scale = stuck}), "backs off by 1:");
  // These are not numbers of float32, or have no inverse.
  for (const double out_of_range : {1e-39, 1e39, std::nan("")})
    REQUIRE_ERROR(make({.loss_scale = out_of_range}), "expected from 2^-126 to 2^126");
}

// A GPU converts by an instruction. For every upper half of a float, the test takes the values of
// either format, the middles between them, and the neighbors of both.
TEST_CASE("every device rounds to 16 bits as the host does", "[precision][ops]") {
  std::vector<float> floats;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const uint32_t lower : {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000,
                                 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff})
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
  const auto P = static_cast<int64_t>(floats.size());
  const auto check_type = [&]<class T>(DType dtype) {
    const Parameters parameters({{"x", {P}}}, {}, DType::f32, dtype, test_device(),
                                GradientStorage::on_demand);
    parameters.values().copy_from(Tensor::from(floats, {P}));
    round_copies(parameters);
    const Tensor copies = on_host(parameters.copies());
    int64_t wrong = 0;
    for (int64_t i = 0; i < P; ++i) {
      const T found = copies.view().as<const T>()[i], expected(floats[static_cast<size_t>(i)]);
      if (std::isnan(float(expected)) ? !std::isnan(float(found)) : found.bits != expected.bits)
        ++wrong;
    }
    REQUIRE(wrong == 0);
  };
  check_type.operator()<Half>(DType::f16);
  check_type.operator()<BFloat16>(DType::bf16);
}

TEST_CASE("a run that cannot recover says what is not finite", "[precision]") {
  const Dataset digits =
      make_digits(Split::train, {.train_size = 40, .test_size = 1}).to(test_device());
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::mlp_small});
  options.batches = {5, 10};
  const auto run = [&](size_t entry, double fill, int64_t windows) {
    Training training(options, digits, test_device());
    SkippedWindows skipped(training, options, digits, training.game().players().front());
    training.parameters().entries()[entry].tensor.detach().fill(fill);
    round_copies(training.parameters());
    training.loader().start_epoch(0);
    for (int64_t window = 0; window < windows;) {
      const MicroBatch* micro_batch = training.loader().next();
      if (!micro_batch) training.loader().start_epoch(1), micro_batch = training.loader().next();
      training.micro_step(*micro_batch, 0);
      if (!micro_batch->ends_window) continue;
      skipped.see({training.window().step(), 0, window++});
    }
  };
  options.max_skipped = 3;
  run(3, std::nan(""), 2);
  REQUIRE_ERROR(run(3, std::nan(""), 3),
                "in 3 windows in a row (after step 0, loss nan): 2.bias is not");
  // A hidden layer with values of 6e4 in float16: its logits are infinite for every sample.
  options.precision = Precision::fp16;
  REQUIRE_ERROR(run(1, 6e4, 3), "the first sample with such a result is number");
  // If the scale falls, it repairs the overflow that it caused. If it falls hardly or not at all,
  // the run ends as with a scale of 1.
  options.dynamic_scale.initial = 1e12;
  run(1, 0, 50);
  options.dynamic_scale.hysteresis = 1'000'000'000;
  REQUIRE_ERROR(run(1, 0, 4), "not finite in 3 windows in a row (after step 0, loss 2");
  options.dynamic_scale.hysteresis = 1;
  options.dynamic_scale.backoff = 0.99;
  REQUIRE_ERROR(run(1, 0, 4), "not finite in 3 windows in a row");
  options.on_overflow = OnOverflow::stop;
  REQUIRE_ERROR(run(1, 6e4, 1), "which is to end the run: the first sample");
}

TEST_CASE("activations in 16 bits take half", "[precision][plan]") {
  const Datasets digits{make_digits(Split::train, {.train_size = 100, .test_size = 1}),
                        make_digits(Split::test, {.train_size = 1, .test_size = 1})};
  for (const ModelKind kind : {ModelKind::mlp, ModelKind::cnn_gn, ModelKind::resnet}) {
    TrainingOptions options;
    options.model = model_factory(default_model(kind));
    options.batches = {64, 64};  // so the activations decide the peak
    const auto peak = [&](Precision precision) {
      options.precision = precision;
      return predict_peak(options, digits, Device::cpu)[Category::activations];
    };
    const double whole = double(peak(Precision::fp32));
    INFO(name(kind));
    REQUIRE(double(peak(Precision::bf16)) <= 0.55 * whole);
    REQUIRE(double(peak(Precision::fp16)) <= 0.55 * whole);
  }
}

}  // namespace accrue::test::precision
