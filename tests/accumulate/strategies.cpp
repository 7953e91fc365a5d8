// The strategies that use each gradient at once and drop it: moments (AdamA) is compared with the
// formulas in double, and step_in_backward with the step of a whole gradient.

#include <cmath>
#include <limits>

#include "accumulate/window.h"
#include "core/ceil_div.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/catch.h"

namespace accrue::test::strategies {
namespace {

constexpr int64_t N = 12, features = 7, classes = 3;
constexpr std::array<int64_t, 4> sizes{features, 9, 5, classes};
using Split = std::vector<int64_t>;
using Values = std::vector<double>;

Batch random_batch(int64_t samples, uint64_t seed, DType dtype = DType::f64) {
  return test::random_batch({samples, features}, classes, seed, dtype);
}

struct Learner {
  std::unique_ptr<Sequential> model = make_mlp(sizes);
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Parameters&)>;
  Learner(Strategy strategy, const MakeOptimizer& make, double loss_scale = 1,
          Graphs graphs = Graphs::on, DType dtype = DType::f64)
      : parameters(place(*model, dtype, test_device(), 3, gradient_storage(strategy))),
        optimizer(make(parameters)),
        window(*optimizer, ScheduleOptions{.base = 0.01},
               {.effective_batch_size = N,
                .strategy = strategy,
                .loss_scale = loss_scale,
                .graphs = graphs}) {}

  Tensor loss(const Batch& batch, int64_t begin, int64_t end, Recompute recompute) const {
    const Pass pass{.recompute = recompute};
    return cross_entropy((*model)(batch.x.slice(begin, end), pass), batch.labels.slice(begin, end));
  }
  StepReport step(const Batch& batch, const Split& split, Recompute recompute = Recompute::none) {
    window.expect(batch.x.size(0));
    int64_t begin = 0;
    for (const int64_t n : split) {
      window.backward(loss(batch, begin, begin + n, recompute), n);
      begin += n;
    }
    return window.step();
  }
  Values state() const {
    Values all = to_doubles(parameters.values());
    for (const auto& [name, tensor] : optimizer->state())
      for (const double value : to_doubles(tensor)) all.push_back(value);
    return all;
  }
};

Learner::MakeOptimizer adam_with(double weight_decay, bool decoupled) {
  return [=](Parameters& parameters) {
    const AdamOptions options{.eps = 1e-3, .weight_decay = weight_decay};
    return decoupled ? adamw(parameters, options) : adam(parameters, options);
  };
}

// AdamA by the formulas in kernels/step/optimizer_step.h. Its gradients come from a learner of
// strategy fused, which gets the weights first.
class ReferenceAdamA {
 public:
  ReferenceAdamA(double weight_decay, bool decoupled)
      : l2_(decoupled ? 0 : weight_decay),
        decoupled_(decoupled ? weight_decay : 0),
        learner_(Strategy::fused, adam_with(0, false)),
        w_(to_doubles(learner_.parameters.values())),
        m_(w_.size()),
        v_(w_.size()) {}

  void step(const Batch& batch, const Split& split) {
    int64_t begin = 0;
    for (const int64_t n : split) {
      learner_.parameters.zero_grad();
      backward(learner_.loss(batch, begin, begin + n, Recompute::none),
               double(n) / double(batch.x.size(0)));
      const Values g = to_doubles(learner_.parameters.gradients());
      const bool first = begin == 0;
      for (size_t i = 0; i < w_.size(); ++i) {
        const double gi = g[i] + (first ? l2_ * w_[i] : 0);
        m_[i] = (first ? 0.9 : 1) * m_[i] + 0.1 * gi;
        v_[i] = (first ? 0.999 : 1) * v_[i] + 0.001 * gi * gi;
      }
      begin += n;
    }
    ++t_;
    for (size_t i = 0; i < w_.size(); ++i) {
      const double m_hat = m_[i] / (1 - std::pow(0.9, t_)),
                   v_hat = v_[i] / (1 - std::pow(0.999, t_));
      w_[i] = w_[i] * (1 - 0.01 * decoupled_) - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-3);
    }
    const Tensor values = Tensor::from(w_, {static_cast<int64_t>(w_.size())}, test_device());
    learner_.parameters.values().copy_from(values);
  }
  Values state() const {
    Values all = w_;
    all.insert(all.end(), m_.begin(), m_.end());
    all.insert(all.end(), v_.begin(), v_.end());
    return all;
  }

 private:
  double l2_, decoupled_, t_ = 0;
  Learner learner_;
  Values w_, m_, v_;
};

}  // namespace

TEST_CASE("moments is AdamA, also with a short last window", "[strategies]") {
  for (const bool decoupled : {false, true}) {
    for (const double loss_scale : {1.0, 128.0}) {
      Learner learner(Strategy::moments, adam_with(0.1, decoupled), loss_scale);
      ReferenceAdamA reference(0.1, decoupled);
      const std::vector<Split> windows{{4, 4, 4}, {12}, {5, 5, 2}, {4, 3}};
      for (size_t i = 0; i < windows.size(); ++i) {
        int64_t samples = 0;
        for (const int64_t n : windows[i]) samples += n;
        const Batch batch = random_batch(samples, 100 + i);
        const StepReport report = learner.step(batch, windows[i]);
        reference.step(batch, windows[i]);
        REQUIRE(report.step == static_cast<int64_t>(i + 1));
        REQUIRE(std::isnan(report.grad_norm));
        // A few roundings of numbers below 10 in double, in four windows whose steps are at most
        // 0.01.
        REQUIRE(largest_difference(learner.state(), reference.state()) <= 1e-12);
      }
    }
  }
}

TEST_CASE("moments of one micro-batch is Adam, and of several is not", "[strategies]") {
  const auto difference = [](const Split& split) {
    Learner moments(Strategy::moments, adam_with(0.1, true)),
        whole(Strategy::fused, adam_with(0.1, true));
    for (uint64_t i = 0; i < 3; ++i) {
      moments.step(random_batch(N, i), split);
      whole.step(random_batch(N, i), split);
    }
    return largest_difference(moments.state(), whole.state());
  };
  REQUIRE(difference({12}) <= 1e-12);
  REQUIRE(difference({4, 4, 4}) > 1e-6);
}

TEST_CASE("step_in_backward is the step of the whole gradient", "[strategies]") {
  const std::vector<Learner::MakeOptimizer> optimizers{
      adam_with(0.1, false), adam_with(0.1, true), [](Parameters& parameters) {
        return sgd(parameters, {.momentum = 0.9, .weight_decay = 0.1});
      }};
  for (const auto& optimizer : optimizers) {
    Learner dropping(Strategy::step_in_backward, optimizer, 64),
        whole(Strategy::fused, optimizer, 64);
    Learner again(Strategy::step_in_backward, optimizer, 64);
    for (uint64_t i = 0; i < 4; ++i) {
      // The last window is short.
      const int64_t samples = i == 3 ? 7 : N;
      const Batch batch = random_batch(samples, i);
      const StepReport a = dropping.step(batch, {samples}), b = whole.step(batch, {samples});
      again.step(batch, {samples}, Recompute::all);
      REQUIRE(a.loss == b.loss);
      REQUIRE(a.step == b.step);
    }
    REQUIRE(largest_difference(dropping.state(), whole.state()) <= 1e-12);
    REQUIRE(again.state() == dropping.state());
  }
}

TEST_CASE("a non-finite loss: step_in_backward skips the window, moments refuses to go on",
          "[strategies]") {
  const auto step_to_infinity = [](Learner& learner) {
    const Tensor loss = learner.loss(random_batch(N, 1), 0, N, Recompute::none);
    learner.window.backward(scale(loss, std::numeric_limits<double>::infinity()), N);
    return learner.window.step();
  };
  Learner dropping(Strategy::step_in_backward, adam_with(0, false));
  dropping.step(random_batch(N, 2), {N});
  const Values before = dropping.state();
  REQUIRE(step_to_infinity(dropping).skipped);
  REQUIRE(dropping.state() == before);
  REQUIRE(dropping.optimizer->steps() == 1);

  Learner folding(Strategy::moments, adam_with(0, false));
  REQUIRE_ERROR(step_to_infinity(folding), "cannot be undone");
}

TEST_CASE("recorded micro-steps that drop gradients give the same bits", "[strategies]") {
  const auto state_after = [](Strategy strategy, Graphs graphs) {
    Learner learner(strategy, adam_with(0.1, true), 1, graphs, DType::f32);
    Window& window = learner.window;
    const Batch place = random_batch(N, 1, DType::f32);
    for (uint64_t i = 0; i < 8; ++i) {
      const int64_t samples = i == 5 ? 7 : N;
      const Batch batch = random_batch(samples, 10 + i, DType::f32);
      window.expect(samples);
      const int64_t micro = facts_of(strategy).is_of_one_micro_batch ? samples : 5;
      for (int64_t begin = 0; begin < samples; begin += micro) {
        const int64_t n = std::min(micro, samples - begin);
        place.x.slice(0, n).copy_from(batch.x.slice(begin, begin + n));
        place.labels.slice(0, n).copy_from(batch.labels.slice(begin, begin + n));
        window.micro_step(n, 0,
                          [&] { window.backward(learner.loss(place, 0, n, Recompute::sqrt), n); });
      }
      window.enqueue_step();
    }
    REQUIRE(window.reports(Window::Wait::yes).size() == 8);
    return learner.state();
  };
  for (const Strategy strategy :
       {Strategy::moments, Strategy::step_in_backward, Strategy::bf16_sum})
    REQUIRE(state_after(strategy, Graphs::on) == state_after(strategy, Graphs::off));
  if (!on_runner()) return;
  cuda::refused_graphs();
  for (const Strategy strategy : {Strategy::moments, Strategy::step_in_backward})
    for (const auto by : {RefusedRecordings::By::call, RefusedRecordings::By::end}) {
      const RefusedRecordings refused(9, by);
      REQUIRE(state_after(strategy, Graphs::on) == state_after(strategy, Graphs::off));
      REQUIRE(!cuda::refused_graphs().empty());
    }
}

TEST_CASE("dropping strategies refuse what they cannot do", "[strategies]") {
  const auto adam_plain = adam_with(0, false);
  REQUIRE_ERROR(Learner(Strategy::moments, [](Parameters& p) { return sgd(p); }),
                "expected adam or adamw");
  auto model = make_mlp(sizes);
  Parameters arena = place(*model, DType::f32, test_device(), 1);
  const auto optimizer = adam(arena);
  REQUIRE_ERROR(Window(*optimizer, ScheduleOptions{}, {.strategy = Strategy::moments}),
                "expected gradient_storage(strategy)");
  REQUIRE_ERROR(
      Window(*optimizer, ScheduleOptions{}, {.strategy = Strategy::moments, .clip_norm = 1}),
      "cannot clip its norm");

  const Batch batch = random_batch(N, 1);
  Learner once(Strategy::step_in_backward, adam_plain);
  once.window.backward(once.loss(batch, 0, 6, Recompute::none), 6);
  REQUIRE_ERROR(once.window.backward(once.loss(batch, 6, 12, Recompute::none), 6),
                "a window's only micro-batch");
  REQUIRE_ERROR(once.window.abandon(), "cannot be abandoned");

  // The step counts from the beginning of backward, before any weight has changed.
  Learner interrupted(Strategy::step_in_backward, adam_plain);
  const Segment fails_in_backward = [](const std::vector<Tensor>& in) {
    if (recomputing()) fail("no memory, say");
    return scale(in[0], 1);
  };
  const Tensor whole = interrupted.loss(batch, 0, N, Recompute::none);
  REQUIRE_ERROR(interrupted.window.backward(recompute(fails_in_backward, {whole}), N),
                "no memory, say");
  REQUIRE_ERROR(interrupted.window.abandon(), "cannot be abandoned");

  Learner folding(Strategy::moments, adam_plain);
  folding.window.backward(folding.loss(batch, 0, 6, Recompute::none), 6);
  REQUIRE_ERROR(folding.window.step(), "expect() the size of a short window");
  REQUIRE_ERROR(folding.window.expect(6), "before the first");
}

TEST_CASE("gradients that are dropped take no more than the largest layer's",
          "[strategies][memory]") {
  constexpr std::array<int64_t, 5> wide{64, 128, 256, 128, 10};
  const auto peak = [&](Strategy strategy, Device device) {
    auto model = make_mlp(wide);
    Parameters parameters = place(*model, DType::f32, device, 1, gradient_storage(strategy));
    const auto optimizer = adam(parameters);
    Window window(*optimizer, ScheduleOptions{}, {.effective_batch_size = 4, .strategy = strategy});
    const Tensor x = Tensor::full({1, 64}, 0.1, DType::f32, device, Category::data);
    const Tensor labels = Tensor::from(std::vector<int32_t>{1}, {1}, device);
    ledger(device).reset_peak();
    for (int i = 0; i < 4; ++i) window.backward(cross_entropy((*model)(x), labels), 1);
    window.step();
    return ledger(device).peak();
  };
  const Usage moments = peak(Strategy::moments, test_device()),
              fused = peak(Strategy::fused, test_device());
  // With one sample, gradients outweigh activations: the peak is where the gradients of the largest
  // weight and of its bias are alive.
  REQUIRE(moments[Category::gradients] == (128 * 256 + 256) * sizeof(float));
  REQUIRE(fused[Category::gradients] > 2 * moments[Category::gradients]);
  REQUIRE(moments[Category::optimizer] == fused[Category::optimizer]);
  REQUIRE(peak(Strategy::moments, meta_of(test_device())).bytes == moments.bytes);
  // The gradients beside a sum that takes half the bytes.
  const Usage narrow = peak(Strategy::bf16_sum, test_device());
  REQUIRE(narrow[Category::gradients] ==
          round_up(fused[Category::gradients] / 2, size_t(64)) + moments[Category::gradients]);
  REQUIRE(peak(Strategy::bf16_sum, meta_of(test_device())).bytes == narrow.bytes);
}

}  // namespace accrue::test::strategies
