// The average of the weights, and the gradient's noise scale: a window keeps them beside its step.

#include "job/averages.h"

#include <cmath>

#include "accumulate/window.h"
#include "core/random.h"
#include "kernels/cross_entropy.h"
#include "kernels/losses.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/batch.h"
#include "tests/support/cli.h"

namespace accrue::test::averages {
namespace {

constexpr int64_t N = 16, features = 6, classes = 3;
constexpr std::array<int64_t, 3> sizes{features, 5, classes};

Batch random_batch(int64_t step) {
  return test::random_batch({N, features}, classes, static_cast<uint64_t>(step) + 1);
}

struct Learner {
  std::unique_ptr<Layer> model = make_mlp(sizes);
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;

  explicit Learner(WindowOptions options, double lr = 0.05)
      : parameters(place(*model, DType::f64, test_device(), 3, gradient_storage(options.strategy))),
        optimizer(adam(parameters, {.eps = 1e-3})),
        window(*optimizer, ScheduleOptions{.base = lr}, options) {}

  StepReport step(const Batch& batch, int64_t micro, int64_t samples = N) {
    window.expect(samples);
    for (int64_t begin = 0; begin < samples; begin += micro) {
      const int64_t end = std::min(begin + micro, samples);
      window.backward(
          cross_entropy((*model)(batch.x.slice(begin, end)), batch.labels.slice(begin, end)),
          end - begin);
    }
    return window.step();
  }
  std::vector<double> weights() const { return to_doubles(parameters.values()); }
  std::vector<double> averages() {
    window.exchange_averages();
    const auto result = weights();
    window.exchange_averages();
    return result;
  }
};

Tensor not_finite() {
  return Tensor::full({N, features}, std::nan(""), DType::f64, test_device(), Category::data);
}

// |gradient|^2 of the mean loss of the first samples of a batch, computed at once.
double squared_gradient(const Batch& batch, int64_t samples) {
  Learner learner({.effective_batch_size = samples});
  const double norm = learner.step(batch, samples, samples).grad_norm;
  return norm * norm;
}

}  // namespace

TEST_CASE("the average of the weights moves once a step, by the formula", "[window][averages]") {
  constexpr double decay = 0.4;
  for (const Strategy strategy :
       {Strategy::fused, Strategy::separate, Strategy::moments, Strategy::step_in_backward}) {
    Learner learner({.effective_batch_size = N, .strategy = strategy, .ema_decay = decay});
    REQUIRE_ERROR(learner.window.exchange_averages(), "no average");
    std::vector<double> expected = learner.weights();
    for (int t = 1; t <= 12; ++t) {
      learner.step(random_batch(t), strategy == Strategy::step_in_backward ? N : 4);
      // The steps cover both sides of the minimum: t / (9 + t) is below 0.4 up to t = 5.
      const double d = t == 1 ? 0 : std::min(decay, (1.0 + (t - 1)) / (10.0 + (t - 1)));
      const auto w = learner.weights();
      for (size_t i = 0; i < w.size(); ++i) expected[i] = d * expected[i] + (1 - d) * w[i];
      INFO("strategy " << int(strategy) << ", step " << t);
      // Five roundings of values below 2 in each step.
      REQUIRE(largest_difference(learner.averages(), expected) <= 12 * 5 * 2 * 0x1p-53);
      REQUIRE(largest_difference(learner.weights(), w) == 0);
    }
    REQUIRE(largest_difference(learner.averages(), learner.weights()) > 1e-3);
  }
}

TEST_CASE("a skipped window leaves the average of the weights alone", "[window][averages]") {
  Learner learner({.effective_batch_size = N, .ema_decay = 0.9}, 0.1);
  for (int t = 0; t < 3; ++t) learner.step(random_batch(t), 8);
  const auto before = learner.averages();
  REQUIRE(learner.step({not_finite(), random_batch(0).labels}, 8).skipped);
  REQUIRE(largest_difference(learner.averages(), before) == 0);
  learner.step(random_batch(4), 8);
  REQUIRE(largest_difference(learner.averages(), before) > 0);
}

TEST_CASE("the noise scale is that of the two norms, by the formula", "[window][averages]") {
  constexpr int64_t b = 4;
  for (const Strategy strategy : {Strategy::fused, Strategy::separate})
    for (const int64_t samples : {N, N - 3}) {
      const WindowOptions options{.effective_batch_size = N,
                                  .strategy = strategy,
                                  .clip_norm = 1e-3,
                                  .loss_scale = 64,
                                  .noise_scale = NoiseScale::estimate};
      Learner learner(options, 0);
      double gradient = 0, trace = 0, estimate = 0;
      for (int t = 0; t < 4; ++t) {
        const Batch batch = random_batch(t);
        const double small = squared_gradient(batch, b), big = squared_gradient(batch, samples);
        const auto B = double(samples);
        gradient += 0.01 * ((B * big - b * small) / (B - b) - gradient);
        trace += 0.01 * ((small - big) / (1.0 / b - 1 / B) - trace);
        estimate = learner.step(batch, b, samples).noise_scale;
        // A skipped window does not count.
        REQUIRE(learner.step({not_finite(), batch.labels}, b).skipped);
      }
      INFO("strategy " << int(strategy) << ", " << samples << " samples");
      REQUIRE(gradient > 0);
      REQUIRE(estimate == Approx(trace / gradient).epsilon(1e-9));
    }
}

TEST_CASE("the noise scale of one micro-batch, or unasked, is not known", "[window][averages]") {
  const auto noise_scale = [](NoiseScale asked, int64_t micro) {
    Learner learner({.effective_batch_size = N, .noise_scale = asked});
    return learner.step(random_batch(1), micro).noise_scale;
  };
  REQUIRE(std::isnan(noise_scale(NoiseScale::estimate, N)));
  REQUIRE(std::isnan(noise_scale(NoiseScale::off, 4)));
  const WindowOptions dropping{.effective_batch_size = N,
                               .strategy = Strategy::moments,
                               .noise_scale = NoiseScale::estimate};
  REQUIRE_ERROR(Learner(dropping), "cannot estimate its noise scale");
  REQUIRE_ERROR(Learner({.effective_batch_size = N, .ema_decay = 1.0}), "average 1: expected in");
}

// The gradients of these samples are known. The loss is x w + c, the distance to a target far
// below. So the gradient of w is x itself, which is drawn from a normal distribution, and the
// gradient of the bias is 1. With d features of mean m and variance 1 the noise scale is d / (d m^2
// + 1).
TEST_CASE("the noise scale of a known distribution is found", "[window][averages]") {
  if (test_device() != Device::cpu) return;  // the formula is the same
  constexpr int64_t d = 200, B = 64, b = 8, windows = 600;
  constexpr double mean = 0.0707107;
  Linear model(d, 1);
  Parameters parameters = place(model, DType::f64, Device::cpu, 1);
  const auto optimizer = sgd(parameters);
  Window window(*optimizer, ScheduleOptions{.base = 0},
                {.effective_batch_size = B, .noise_scale = NoiseScale::estimate});
  const Tensor target = Tensor::full({b, 1}, -1e6, DType::f64, Device::cpu);
  RandomStream random(7);
  double estimate = 0;
  for (int64_t w = 0; w < windows; ++w) {
    for (int64_t i = 0; i < B; i += b) {
      const Tensor x = Tensor::empty({b, d}, DType::f64, Device::cpu, Category::data);
      for (double& v : x.span<double>()) v = mean + random.normal();
      window.backward(l1_loss(model(x), target), b);
    }
    estimate = window.step().noise_scale;
  }
  const double expected = d / (d * mean * mean + 1);
  // The standard deviations of one window's estimates are 12 % of tr(Sigma) and 30 % of |G|^2:
  // |e|^2 of d normal errors of variance 1/b has the variance 2 d / b^2, and G e has |G|^2 / b. An
  // average that moves by 1 % is like the mean of 199 windows, so the ratio of the two varies by
  // 2.3 %. The bound is four times that.
  INFO("estimated " << estimate << ", expected " << expected);
  REQUIRE(std::abs(estimate / expected - 1) < 0.092);
}

TEST_CASE("the averages are told in words", "[window][averages]") {
  TrainingOptions options;
  REQUIRE(describe_averages(options).empty());
  options.beta2_half_life = 6400;
  options.ema = 0.999;
  options.noise_scale = true;
  REQUIRE(describe_averages(options).size() == 3);
  REQUIRE_THAT(describe_averages(options)[0], ContainsSubstring("beta2 0.993092"));
  REQUIRE_THAT(
      describe_noise_scale(64, 64, "samples"),
      ContainsSubstring("64 samples: at an effective batch of 64 a run takes 2x the steps"));
  REQUIRE_THAT(describe_noise_scale(300, 100, "tokens"),
               ContainsSubstring("an effective batch of 100 tokens a run takes 4x the steps"));
  REQUIRE_THAT(describe_noise_scale(std::nan(""), 64, "samples"), ContainsSubstring("unknown"));
  REQUIRE(average_path("a/w.safetensors") == "a/w.ema.safetensors");
  REQUIRE(average_path("w") == "w.ema");
}

TEST_CASE("the average of the weights is scored and saved beside them", "[cli][full]") {
  const Folder folder;
  const std::string w = folder / "w.safetensors", average = folder / "w.ema.safetensors";
  const std::string text =
      succeed("train --model mlp-small" + narrow() +
              "--steps 12 --ema 0.9 --noise-scale --beta2-half-life 10000 --save " + w +
              " --json " + (folder / "m.jsonl"));
  REQUIRE_THAT(text, ContainsSubstring("beta2 0.995574"));
  REQUIRE_THAT(text, ContainsSubstring("gradient noise scale"));
  REQUIRE(largest_difference(w, average) > 0);
  const auto lines = json_lines(folder / "m.jsonl");
  REQUIRE(lines.back()["test"]["loss"] != lines.back()["test_ema"]["loss"]);
  REQUIRE(lines[3].contains("noise_scale"));
  succeed("eval --model mlp-small" + narrow() + "--init " + average + " --json " +
          (folder / "e.json"));
  REQUIRE(nlohmann::json::parse(file_bytes(folder / "e.json"))["test"]["correct"] ==
          lines.back()["test_ema"]["correct"]);
  refuse("train --beta2 0.9 --beta2-half-life 100", "excludes");
  refuse("train --beta2-half-life 0 --steps 1", "expected more than 0");
  refuse("train --ema 1.5 --steps 1", "expected in [0, 1)");
  refuse("train --strategy moments --noise-scale --steps 1", "noise scale");
  refuse("train --schedule one-cycle --warmup-steps 5 --steps 1", "warm-up");
}

}  // namespace accrue::test::averages
