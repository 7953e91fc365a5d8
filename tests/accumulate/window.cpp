// The promise: any split of an effective batch gives the same gradient, norm, weights and moments
// as the whole batch at once, up to rounding, because sums are in another order.

#include <cmath>
#include <map>

#include "accumulate/accumulate.h"
#include "kernels/arithmetic.h"
#include "tests/accumulate/window_learner.h"
#include "tests/support/catch.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

struct Outcome {
  std::vector<double> gradient;  // of the first window's mean loss
  std::vector<double> norms;     // of every step
  std::vector<double> weights, m, v;
};

// The runner takes about a thousand times as long as a GPU.
int steps_of_a_run() { return on_runner() ? 5 : 20; }

Outcome run(DType dtype, const Split& split, WindowOptions options) {
  const int steps = steps_of_a_run();
  Learner learner(dtype, options);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = random_batch(N, dtype, 100 + static_cast<uint64_t>(step));
    learner.accumulate(batch, split);
    if (step == 0 && options.strategy == Strategy::fused)
      outcome.gradient = to_doubles(learner.parameters.gradients());
    outcome.norms.push_back(learner.window.step().grad_norm);
  }
  outcome.weights = to_doubles(learner.parameters.values());
  outcome.m = to_doubles(learner.optimizer->state()[0].second);
  outcome.v = to_doubles(learner.optimizer->state()[1].second);
  return outcome;
}

// The largest difference between two orders of summing one window's gradient. Each element is a sum
// of N terms, and each term is the end of a chain of sums over the layers' widths. Every addition
// rounds by at most u times the running value. That stays below A, the largest sum of the samples'
// absolute gradients divided by N.
double compute_gradient_bound(DType dtype) {
  const double u = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
  const Batch batch = random_batch(N, dtype, 100);
  Learner learner(dtype, {.effective_batch_size = 1});
  std::vector<double> absolute(static_cast<size_t>(learner.parameters.values().numel()));
  for (int64_t n = 0; n < N; ++n) {
    learner.window.backward(learner.loss(batch, n, n + 1), 1);
    const auto g = to_doubles(learner.parameters.gradients());
    for (size_t i = 0; i < g.size(); ++i) absolute[i] += std::abs(g[i]) / double(N);
    learner.window.abandon();
  }
  double terms = double(N);
  for (const int64_t width : sizes) terms += double(width);
  return terms * u * *std::ranges::max_element(absolute);
}

double gradient_bound(DType dtype) {
  static std::map<DType, double> bounds;
  if (!bounds.contains(dtype)) bounds[dtype] = compute_gradient_bound(dtype);
  return bounds[dtype];
}

// A bound for the error of the weights after some steps. Each step moves them by at most lr/eps
// times the gradient's error. The moved weights move later gradients in turn: that factor stays
// near 1 for 20 steps of 1e-3, and the bound allows 2.
double weight_bound(DType dtype, int steps) {
  return 2 * steps * Learner::lr / Learner::eps * gradient_bound(dtype);
}

void require_equivalent(const Outcome& a, const Outcome& b, DType dtype) {
  const double g = gradient_bound(dtype), w = weight_bound(dtype, steps_of_a_run());
  if (!a.gradient.empty() && !b.gradient.empty())
    REQUIRE(largest_difference(a.gradient, b.gradient) <= g);
  // If each of P elements is off by g, the norm is off by at most g * sqrt(P). Later steps start
  // from weights that are off by w.
  REQUIRE(largest_difference(a.norms, b.norms) <= (g + w) * std::sqrt(double(a.weights.size())));
  REQUIRE(largest_difference(a.weights, b.weights) <= w);
  REQUIRE(largest_difference(a.m, b.m) <= g + w);
  REQUIRE(largest_difference(a.v, b.v) <= 2 * (g + w));
}

}  // namespace

TEST_CASE("every split of an effective batch is the same training", "[window]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Outcome whole = run(dtype, splits[0], {.effective_batch_size = N});
    for (const Split& split : splits) {
      INFO(name(dtype) << ", " << split.size() << " micro-batches, first of " << split[0]);
      for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
        if (reduced() && dtype == DType::f32 && strategy == Strategy::separate) continue;
        const Outcome parts = run(dtype, split, {.effective_batch_size = N, .strategy = strategy});
        require_equivalent(whole, parts, dtype);
        if (dtype == DType::f32) continue;
        if (strategy == Strategy::fused)
          REQUIRE(largest_difference(whole.gradient, parts.gradient) <= 1e-12);
        REQUIRE(largest_difference(whole.norms, parts.norms) <= 1e-12);
        REQUIRE(largest_difference(whole.weights, parts.weights) <= 1e-12);
        REQUIRE(largest_difference(whole.m, parts.m) <= 1e-12);
        REQUIRE(largest_difference(whole.v, parts.v) <= 1e-12);
      }
    }
  }
}

// Twelve windows, which is more than may be under way at once. The third one has an infinite
// sample. The micro-steps read their samples from the same place every time. Holds the windows'
// reports, and the final weights and moments.
struct InPlace {
  std::vector<StepReport> reports;
  std::vector<double> state;

  InPlace(Graphs graphs, Strategy strategy) {
    Learner learner(DType::f32,
                    {.effective_batch_size = N, .strategy = strategy, .graphs = graphs});
    Window& window = learner.window;
    const Batch place = random_batch(24, DType::f32, 1);
    for (uint64_t step = 0; step < 12; ++step) {
      const Batch batch = random_batch(N, DType::f32, 100 + step);
      if (step == 2) batch.x.slice(30, 31).fill(std::numeric_limits<double>::infinity());
      int64_t begin = 0;
      for (const int64_t n : {24, 24, 16}) {
        place.x.slice(0, n).copy_from(batch.x.slice(begin, begin + n));
        place.labels.slice(0, n).copy_from(batch.labels.slice(begin, begin + n));
        window.micro_step(n, 0, [&] { window.backward(learner.loss(place, 0, n), n); });
        begin += n;
      }
      window.enqueue_step();
      for (const StepReport& report : window.reports()) reports.push_back(report);
    }
    for (const StepReport& report : window.reports(Window::Wait::yes)) reports.push_back(report);
    state = to_doubles(learner.parameters.values());
    for (const auto& [name, tensor] : learner.optimizer->state())
      for (const double value : to_doubles(tensor)) state.push_back(value);
  }
};

TEST_CASE("recorded micro-steps and steps give the same bits, and reports come in order",
          "[window]") {
  for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
    const InPlace recorded(Graphs::on, strategy), plain(Graphs::off, strategy);
    REQUIRE(recorded.state == plain.state);
    REQUIRE(recorded.reports.size() == 12);
    REQUIRE(plain.reports.size() == 12);
    for (size_t i = 0; i < 12; ++i) {
      const StepReport &a = recorded.reports[i], &b = plain.reports[i];
      INFO("window " << i);
      REQUIRE(a.step == static_cast<int64_t>(i < 2 ? i + 1 : i));  // the third is not counted
      REQUIRE(a.skipped == (i == 2));
      REQUIRE(a.samples == N);
      REQUIRE(a.micro_batches == 3);
      REQUIRE(b.step == a.step);
      if (i == 2) continue;
      REQUIRE(b.loss == a.loss);
      REQUIRE(b.grad_norm == a.grad_norm);
      REQUIRE(b.lr == a.lr);
    }
  }
}

TEST_CASE("what CUDA refuses to record is run every time, with the same bits", "[window]") {
  if (!on_runner()) return;  // only the runner refuses
  cuda::refused_graphs();
  for (const Strategy strategy : {Strategy::fused, Strategy::separate}) {
    const InPlace plain(Graphs::off, strategy);
    for (const size_t works : {0, 2, 9})
      for (const auto by : {RefusedRecordings::By::call, RefusedRecordings::By::end}) {
        if (reduced() && strategy == Strategy::separate && works != 9) continue;
        INFO(works << " recorded, then refused by " << int(by));
        const RefusedRecordings refused(works, by);
        const InPlace recorded(Graphs::on, strategy);
        REQUIRE(recorded.state == plain.state);
        REQUIRE(recorded.reports.size() == 12);
        for (size_t i = 0; i < 12; ++i) REQUIRE(recorded.reports[i].samples == N);
        REQUIRE(!cuda::refused_graphs().empty());
      }
  }
}

TEST_CASE("numbers beside a loss are means over the window's samples", "[window]") {
  const Batch batch = random_batch(N, DType::f64, 7);
  const auto terms_of = [&](const Split& split, std::vector<double>* by_hand) {
    Learner learner(DType::f64);
    int64_t begin = 0;
    for (const int64_t n : split) {
      const Tensor loss = learner.loss(batch, begin, begin + n);
      const Tensor twice = scale(loss.detach(), 2), constant = ones({1});
      if (by_hand) by_hand->push_back(to_doubles(twice).front() * double(n) / N);
      learner.window.backward({loss, {twice, constant}}, n);
      begin += n;
    }
    const StepReport report = learner.window.step();
    REQUIRE(report.terms.at(0) == Approx(2 * report.loss).epsilon(1e-14));
    REQUIRE(report.terms.at(1) == 1);
    REQUIRE(report.terms.size() == 2);
    return report.terms.front();
  };
  std::vector<double> parts;
  const double whole = terms_of({64}, nullptr), cut = terms_of({24, 24, 16}, &parts);
  REQUIRE(cut == Approx(whole).epsilon(1e-13));
  REQUIRE(cut == Approx(parts[0] + parts[1] + parts[2]).epsilon(1e-13));

  Learner learner(DType::f64);
  const Tensor loss = learner.loss(batch, 0, 32);
  learner.window.backward({loss, {loss.detach()}}, 32);
  REQUIRE_ERROR(learner.window.backward(learner.loss(batch, 32, 64), 32),
                "a loss has 0 numbers beside it, but earlier losses of its window have 1");
}

TEST_CASE("a number follows the loss of the last window", "[window]") {
  const StepFunction f{{0.5, 1, 2, 3}, {0.1, 20, 30, 40, 50}};
  const Batch batch = random_batch(N, DType::f32, 7);
  Tensor y = Tensor::full({1}, 7, DType::f32, test_device());
  const auto followed = [&](double factor) {
    Learner learner(DType::f32);
    follow_loss(y.view(), learner.window.state(), f);
    const double before = to_doubles(y).front();
    const Tensor loss = learner.loss(batch, 0, N);
    learner.window.backward(scale(loss, factor / to_doubles(loss).front()), N);
    learner.window.step();
    follow_loss(y.view(), learner.window.state(), f);
    return std::pair(before, to_doubles(y).front());
  };
  REQUIRE(followed(0.25) == std::pair(7.0, double(0.1f)));
  REQUIRE(followed(0.75) == std::pair(double(0.1f), 20.0));
  REQUIRE(followed(2.5) == std::pair(20.0, 40.0));
  REQUIRE(followed(100) == std::pair(40.0, 50.0));
  const double not_finite = std::numeric_limits<double>::quiet_NaN();
  REQUIRE(followed(not_finite) == std::pair(50.0, 50.0));
  // Skipped windows change nothing, whatever their loss.
  Learner learner(DType::f32);
  for (const double factor : {0.75, not_finite, not_finite}) {
    const Tensor loss = learner.loss(batch, 0, N);
    learner.window.backward(scale(loss, factor / to_doubles(loss).front()), N);
    REQUIRE(learner.window.step().skipped == std::isnan(factor));
    y.fill(7);
    follow_loss(y.view(), learner.window.state(), f);
    REQUIRE(to_doubles(y).front() == 20);
  }
  y = Tensor::full({1}, 7, DType::f64, test_device());
  REQUIRE(followed(0.25) == std::pair(7.0, 0.1));
}

TEST_CASE("loss scale and clipping do not depend on the split", "[window]") {
  const WindowOptions plain{.effective_batch_size = N, .clip_norm = 0.05};
  WindowOptions scaled = plain;
  scaled.loss_scale = 1024;
  const Outcome whole = run(DType::f32, {64}, plain);
  // 0.05 is small enough to clip every step.
  for (const double norm : whole.norms) REQUIRE(norm > 0.05);
  for (const Split& split : splits) {
    Outcome parts = run(DType::f32, split, scaled);
    parts.gradient.clear();
    require_equivalent(whole, parts, DType::f32);
  }
}

// The gradient by which a short last window (40 of 64 samples) steps.
std::vector<double> step_gradient_of_short_window(const Split& split) {
  Learner learner(DType::f64, {.effective_batch_size = N});
  learner.accumulate(random_batch(40, DType::f64, 5), split);
  const StepReport report = learner.window.step();
  REQUIRE(report.samples == 40);
  // m = (1 - beta1) * g after the first step.
  auto m = to_doubles(learner.optimizer->state()[0].second);
  for (double& value : m) value /= 1 - 0.9;
  return m;
}

// The mean gradient of the same 40 samples at once, without a window.
std::vector<double> gradient_of_40() {
  Learner learner(DType::f64);
  backward(learner.loss(random_batch(40, DType::f64, 5), 0, 40));
  return to_doubles(learner.parameters.gradients());
}

TEST_CASE("a short last window is exact", "[window]") {
  for (const Split& split : {Split{40}, Split{16, 16, 8}, Split{24, 16}, Split(40, 1)})
    REQUIRE(largest_difference(step_gradient_of_short_window(split), gradient_of_40()) <= 1e-12);
}

TEST_CASE("dividing by K, as written by hand, would be noticed", "[window][negative]") {
  // grad += g / K with K = 3, over micro-batches of 16, 16 and 8: a mean of means.
  Learner learner(DType::f64);
  const Batch batch = random_batch(40, DType::f64, 5);
  for (const auto& [begin, end] : {std::pair{0, 16}, {16, 32}, {32, 40}})
    backward(learner.loss(batch, begin, end), 1.0 / 3);
  const auto wrong = to_doubles(learner.parameters.gradients());
  REQUIRE(largest_difference(wrong, gradient_of_40()) > 1e6 * 1e-12);
  // Dividing by the K of a whole window, 4, instead: for a window of 40 the gradient is too small,
  // by the factor 40 / 64.
  learner.parameters.zero_grad();
  for (const auto& [begin, end] : {std::pair{0, 16}, {16, 32}, {32, 40}})
    backward(learner.loss(batch, begin, end), 1.0 / 4);
  REQUIRE(largest_difference(to_doubles(learner.parameters.gradients()), gradient_of_40()) >
          1e6 * 1e-12);
}

TEST_CASE("peak memory does not grow with the number of micro-batches", "[window][memory]") {
  const auto peak = [](int64_t K, Device device, Strategy strategy) {
    auto model = make_mlp(sizes);
    Parameters parameters = place(*model, DType::f32, device, 1);
    const auto optimizer = adam(parameters);
    Window window(*optimizer, ScheduleOptions{},
                  {.effective_batch_size = 8 * K, .strategy = strategy});
    ledger(device).reset_peak();
    const Usage before = ledger(device).current();
    const Tensor x = Tensor::full({8, features}, 0.1, DType::f32, device, Category::data);
    const Tensor labels = Tensor::from(std::vector<int32_t>(8, 1), {8}, device);
    for (int windows = 0; windows < 2; ++windows) {
      for (int64_t i = 0; i < K; ++i) window.backward(cross_entropy((*model)(x), labels), 8);
      window.step();
    }
    return ledger(device).peak().total() - before.total();
  };
  for (const Strategy strategy : {Strategy::fused, Strategy::separate})
    for (const int64_t K : {1, 2, 8, 64})
      for (const Device device : {test_device(), meta_of(test_device())})
        REQUIRE(peak(K, device, strategy) == peak(1, test_device(), strategy));
}

}  // namespace accrue::test
