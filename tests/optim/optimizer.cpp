// Optimizers against their formulas, one parameter at a time in double.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "accumulate/window.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/step/step_outcome.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

using Values = std::vector<double>;
constexpr double lr = 0.01;

// One optimizer and its formula. All tests use this description.
struct Rule {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(Parameters&)> make;
  // The t-th step of a parameter w with the gradient g and its moments, in the order of state().
  std::function<void(double& w, Values& moments, double g, double t, double weight_decay)> step;
};

constexpr double decay = 0.1;

Rule adam_rule(bool decoupled) {
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = decay};
  return {.name = decoupled ? "adamw" : "adam",
          .make = [=](Parameters& p) { return decoupled ? adamw(p, options) : adam(p, options); },
          .step =
              [=](double& w, Values& moments, double g, double t, double weight_decay) {
                double &m = moments[0], &v = moments[1];
                if (decoupled) w -= lr * weight_decay * w;
                else g += weight_decay * w;
                m = 0.9 * m + 0.1 * g;
                v = 0.99 * v + 0.01 * g * g;
                const double m_hat = m / (1 - std::pow(0.9, t)),
                             v_hat = v / (1 - std::pow(0.99, t));
                w -= lr * m_hat / (std::sqrt(v_hat) + 1e-3);
              }};
}

Rule sgd_rule(double momentum, bool nesterov) {
  return {.name = fmt::format("sgd with momentum {}{}", momentum, nesterov ? ", nesterov" : ""),
          .make =
              [=](Parameters& p) {
                return sgd(p, {.momentum = momentum, .weight_decay = decay, .nesterov = nesterov});
              },
          .step =
              [=](double& w, Values& moments, double g, double, double weight_decay) {
                g += weight_decay * w;
                double u = g;
                if (momentum > 0) u = moments[0] = momentum * moments[0] + g;
                w -= lr * (nesterov ? g + momentum * u : u);
              }};
}

Rule lion_rule() {
  return {.name = "lion",
          .make = [](Parameters& p) { return lion(p, {.weight_decay = decay}); },
          .step =
              [](double& w, Values& moments, double g, double, double weight_decay) {
                double& m = moments[0];
                const double c = 0.9 * m + 0.1 * g;
                w = w - lr * (weight_decay * w + (c > 0) - (c < 0));
                m = 0.99 * m + 0.01 * g;
              }};
}

std::vector<Rule> rules() {
  return {lion_rule(),        adam_rule(false),     adam_rule(true),
          sgd_rule(0, false), sgd_rule(0.9, false), sgd_rule(0.9, true)};
}

// The outcome of the decision whether to step.
Tensor decided(double grad_scale, Skipped skipped) {
  const StepOutcome outcome{.lr = lr, .grad_scale = grad_scale, .skipped = skipped};
  std::vector<uint8_t> bytes(sizeof(outcome));
  std::memcpy(bytes.data(), &outcome, sizeof(outcome));
  return Tensor::from(bytes, {sizeof(outcome)}, test_device());
}

Tensor tensor_of(const Values& values, DType dtype) {
  return dispatch_floating(dtype, [&]<class T>() {
    std::vector<T> rounded;
    for (const double value : values) rounded.push_back(T(Wide<T>(value)));
    return Tensor::from(rounded, {std::ssize(values)}, test_device());
  });
}

// Numbers in [-1, 1) that float32 holds, and a few zeros.
Values random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed);
  Values values;
  for (int64_t i = 0; i < n; ++i) values.push_back(i % 10 == 3 ? 0 : double(random.uniform(-1, 1)));
  return values;
}

// How a model is placed and how its parameters are stepped.
struct Mode {
  DType dtype, compute;
  std::vector<int64_t> cuts = {};  // between ranges; odd numbers misalign them
  DType gradient = dtype;
  std::vector<Parameters::Range> exempt = {};  // from weight decay
};

// Parameters with random values, their optimizer, and the same computation in double.
struct Stepped {
  Mode mode;
  const Rule& rule;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Values w;
  std::vector<Values> moments;  // of each parameter
  int64_t steps = 0;

  Stepped(const Rule& rule, const Mode& mode)
      : mode(mode),
        rule(rule),
        parameters({{"weight", {33, 3}}, {"bias", {7}}}, {}, mode.dtype, mode.compute,
                   test_device(), GradientStorage::arena),
        optimizer(rule.make(parameters)),
        w(random_values(P(), 1)),
        moments(w.size(), Values(optimizer->state().size())) {
    parameters.values().copy_from(tensor_of(w, mode.dtype));
    optimizer->exempt_from_decay(mode.exempt);
  }

  int64_t P() const { return parameters.values().numel(); }

  void step(const Values& wanted, double grad_scale, Skipped skipped = Skipped::no) {
    const Tensor outcome = decided(grad_scale, skipped),
                 gradient = tensor_of(wanted, mode.gradient);
    const Values sum = to_doubles(gradient);
    optimizer->begin_step(outcome.view());
    int64_t begin = 0;
    std::vector<int64_t> ends = mode.cuts;
    ends.push_back(P());
    for (const int64_t end : ends) {
      optimizer->step({begin, end}, gradient.slice(begin, end).view(), outcome.view());
      begin = end;
    }
    if (skipped != Skipped::no) return;
    ++steps;
    const auto decays = [&](size_t i) {
      return std::ranges::none_of(mode.exempt, [&](const auto& range) {
        return range.begin <= int64_t(i) && int64_t(i) < range.end;
      });
    };
    for (size_t i = 0; i < w.size(); ++i)
      rule.step(w[i], moments[i], grad_scale * sum[i], double(steps), decays(i) ? decay : 0);
  }

  Values all() const {
    Values values = to_doubles(parameters.values());
    const auto add = [&](const Tensor& x) {
      const Values more = to_doubles(x);
      values.insert(values.end(), more.begin(), more.end());
    };
    for (const auto& [name, tensor] : optimizer->state()) add(tensor);
    if (parameters.copies().defined()) add(parameters.copies());
    values.push_back(double(optimizer->steps()));
    return values;
  }

  // Compares with the formula in double. The bound is several times the error of the formula's
  // roundings of numbers up to 2, if one rounding is `rounding`.
  void check(double rounding) const {
    INFO(rule.name << ", " << name(mode.dtype) << ", " << name(mode.compute) << ", "
                   << name(mode.gradient));
    REQUIRE(optimizer->steps() == steps);
    const double bound = 64 * double(steps) * rounding;
    REQUIRE(largest_difference(to_doubles(parameters.values()), w) <= bound);
    const auto state = optimizer->state();
    for (size_t k = 0; k < state.size(); ++k) {
      Values expected;
      for (const Values& of_one : moments) expected.push_back(of_one[k]);
      REQUIRE(largest_difference(to_doubles(state[k].second), expected) <= bound);
    }
    if (!parameters.copies().defined()) return;
    const Tensor rounded = tensor_of(to_doubles(parameters.values()), mode.compute);
    REQUIRE(to_doubles(parameters.copies()) == to_doubles(rounded));
  }
};

const std::vector<Mode> modes{
    {DType::f64, DType::f64},
    {DType::f64, DType::f64, {33, 64}},
    {DType::f32, DType::f32},
    {DType::f32, DType::f32, {33, 64}},
    {DType::f32, DType::f16},
    {DType::f32, DType::bf16},
    {DType::f32, DType::bf16, {33, 64}},
    {DType::f32, DType::f32, {}, DType::bf16},
    {DType::f32, DType::f16, {33, 64}, DType::bf16},
    // The exempt ranges: at the start, across a cut, and within a part.
    {DType::f64, DType::f64, {33, 64}, DType::f64, {{0, 5}, {30, 40}, {70, 77}}}};

}  // namespace

TEST_CASE("an optimizer's steps follow its formula", "[window]") {
  for (const Rule& rule : rules())
    for (const Mode& mode : modes) {
      Stepped stepped(rule, mode);
      for (uint64_t t = 0; t < 5; ++t) {
        stepped.step(random_values(stepped.P(), 10 + t), t % 2 == 0 ? 0.5 : 1);
        stepped.check(mode.dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
      }
    }
}

TEST_CASE("a skipped step leaves no trace in an optimizer", "[window]") {
  for (const Rule& rule : rules())
    for (const Mode& mode : modes) {
      INFO(rule.name << ", " << name(mode.compute));
      Stepped stepped(rule, mode);
      stepped.step(random_values(stepped.P(), 10), 1);
      const Values before = stepped.all();
      stepped.step(Values(size_t(stepped.P()), NAN), NAN, Skipped::not_finite);
      REQUIRE(stepped.all() == before);
      stepped.step(random_values(stepped.P(), 11), 1);
      stepped.check(mode.dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
    }
}

TEST_CASE("a NaN in a gradient that is stepped by shows in its weight alone", "[window]") {
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    Stepped stepped(rule, {DType::f32, DType::bf16});
    Values gradient = random_values(stepped.P(), 10);
    gradient[5] = NAN;
    stepped.step(gradient, 1);
    for (const Tensor& x : {stepped.parameters.values(), stepped.parameters.copies()}) {
      const Values values = to_doubles(x);
      for (size_t i = 0; i < values.size(); ++i) REQUIRE(std::isnan(values[i]) == (i == 5));
    }
  }
}

// A weight whose gradient is 0 from now on still moves by the sign of its moment, until the moment
// has faded.
TEST_CASE("lion's moment ends at zero, not at a denormal that moves its weight for ever",
          "[window]") {
  const Rule rule = lion_rule();
  Stepped stepped(rule, {DType::f32, DType::f32});
  stepped.step(Values(size_t(stepped.P()), 0x1p-118), 1);
  for (int t = 0; t < 200; ++t) stepped.step(Values(size_t(stepped.P()), 0), 1);
  for (const double m : to_doubles(stepped.optimizer->state()[0].second)) REQUIRE(m == 0);
}

TEST_CASE("lion keeps one moment and refuses impossible betas", "[window]") {
  Parameters parameters({{"weight", {64}}}, {}, DType::f32, Device::meta);
  const size_t before = ledger(Device::meta).current()[Category::optimizer];
  const auto optimizer = lion(parameters);
  // 64 bytes are for the count of steps.
  REQUIRE(ledger(Device::meta).current()[Category::optimizer] - before == 64 * 4 + 64);
  REQUIRE_ERROR(lion(parameters, {.beta1 = 1}), "beta1 is 1");
  REQUIRE_ERROR(lion(parameters, {.beta2 = -1}), "beta2 is -1");
  REQUIRE_ERROR(lion(parameters, {.weight_decay = -1}), "weight decay is -1");
}

TEST_CASE("every optimizer takes the same steps for every split, none for a broken window",
          "[window]") {
  constexpr int64_t N = 12, features = 7, classes = 3;
  constexpr std::array<int64_t, 3> sizes{features, 9, classes};
  using Split = std::vector<int64_t>;
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    const auto state_after = [&](const Split& split) {
      const auto model = make_mlp(sizes);
      Parameters parameters = place(*model, DType::f64, test_device(), 3);
      const auto optimizer = rule.make(parameters);
      Window window(*optimizer, ScheduleOptions{.base = lr}, {.effective_batch_size = N});
      const auto state = [&] {
        Values all = to_doubles(parameters.values());
        for (const auto& [name, tensor] : optimizer->state())
          for (const double value : to_doubles(tensor)) all.push_back(value);
        return all;
      };
      const auto run = [&](uint64_t seed, double factor) {
        const Batch batch = random_batch({N, features}, classes, seed);
        int64_t begin = 0;
        for (const int64_t n : split) {
          const Tensor loss = cross_entropy((*model)(batch.x.slice(begin, begin + n)),
                                            batch.labels.slice(begin, begin + n));
          window.backward(scale(loss, factor), n);
          begin += n;
        }
        return window.step();
      };
      for (uint64_t seed = 1; seed < 4; ++seed) REQUIRE_FALSE(run(seed, 1).skipped);
      const Values before = state();
      REQUIRE(run(4, NAN).skipped);
      REQUIRE(state() == before);
      REQUIRE(optimizer->steps() == 3);
      return before;
    };
    const Values whole = state_after({12});
    for (const Split& split : {Split{4, 4, 4}, Split{5, 5, 2}, Split(12, 1)})
      REQUIRE(largest_difference(state_after(split), whole) <= 1e-12);
  }
}

TEST_CASE("an optimizer keeps the parameters that it was made for", "[window]") {
  const auto model = make_mlp(std::vector<int64_t>{3, 2});
  auto original = std::make_unique<Parameters>(place(*model, DType::f32, test_device(), 1));
  const auto optimizer = adam(*original);
  const Parameters moved = std::move(*original);
  original.reset();
  const Parameters& kept = optimizer->parameters();
  REQUIRE(kept.values().view().data == moved.values().view().data);
  Window window(*optimizer, ScheduleOptions{.base = lr}, {.effective_batch_size = 4});
  const Batch batch = random_batch({4, 3}, 2, 1, DType::f32);
  window.backward(cross_entropy((*model)(batch.x), batch.labels), 4);
  const auto before = to_doubles(moved.values());
  REQUIRE(!window.step().skipped);
  REQUIRE(to_doubles(moved.values()) != before);
}

}  // namespace accrue::test
