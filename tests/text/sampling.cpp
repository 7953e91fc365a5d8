#include "text/sampling.h"

#include <cmath>
#include <limits>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "text/models.h"

namespace accrue::test {
namespace {

// Logits of tokens 0 to 3 with probabilities 0.2, 0.5, 0, 0.3.
std::vector<float> four_logits() { return {std::log(0.2f), std::log(0.5f), -90, std::log(0.3f)}; }

// How often each of the four is drawn.
std::vector<double> shares(const Sampling& sampling) {
  constexpr int draws = 4000;
  std::vector<double> counts(4);
  for (uint64_t step = 0; step < draws; ++step)
    counts[size_t(draw_token(four_logits(), sampling, step))] += 1.0 / draws;
  return counts;
}

}  // namespace

TEST_CASE("tokens are drawn by their probabilities", "[text]") {
  // Five standard deviations of a share of 4000 draws.
  constexpr double within = 0.04;
  const auto are = [&](const Sampling& sampling, const std::vector<double>& expected) {
    const auto found = shares(sampling);
    for (size_t v = 0; v < 4; ++v) REQUIRE(std::abs(found[v] - expected[v]) <= within);
  };
  are({}, {0.2, 0.5, 0, 0.3});
  are({.temperature = 0.5}, {0.04 / 0.38, 0.25 / 0.38, 0, 0.09 / 0.38});
  are({.top_k = 2}, {0, 0.625, 0, 0.375});
  are({.top_p = 0.6}, {0, 0.625, 0, 0.375});
  REQUIRE(shares({.top_p = 0.4}) == std::vector<double>{0, shares({.top_k = 1})[1], 0, 0});
  REQUIRE(shares({.seed = 2}) != shares({.seed = 1}));
  REQUIRE(shares({.seed = 2}) == shares({.seed = 2}));
}

TEST_CASE("without a temperature the first of the largest logits is taken", "[text]") {
  REQUIRE(draw_token(std::vector<float>{1, 3, 3, 2}, {.temperature = 0}, 7) == 1);
  const float infinite = std::numeric_limits<float>::infinity();
  REQUIRE_ERROR(draw_token(std::vector<float>{1, infinite}, {}, 0), "a logit is not finite");
  REQUIRE_ERROR(check_sampling({.temperature = -1}), "a temperature of -1");
  REQUIRE_ERROR(check_sampling({.top_k = -1}), "top k of -1");
  REQUIRE_ERROR(check_sampling({.top_p = 0}), "top p of 0");
}

TEST_CASE("a text goes on as if it were read anew with each token", "[text]") {
  Gpt2 model({.vocabulary = 11, .context = 16, .width = 8, .layers = 2, .heads = 2});
  Parameters parameters = place(model, DType::f32, Device::cpu, 3, GradientStorage::on_demand);
  const std::vector<int32_t> prompt{4, 1, 9};
  const auto continued = [&](int64_t tokens, const Sampling& sampling) {
    std::vector<int32_t> taken;
    continue_text(model, prompt, tokens, sampling, Device::cpu, [&](int32_t token) {
      taken.push_back(token);
      return true;
    });
    return taken;
  };
  for (const double temperature : {0.0, 1.0}) {
    const Sampling sampling{.temperature = temperature};
    std::vector<int32_t> all = prompt;
    for (uint64_t step = 0; step < 13; ++step) {
      const NoGrad no_grad;
      const Tensor logits = model.forward(Tensor::from(all, {1, std::ssize(all)}), Pass::eval());
      all.push_back(draw_token(logits.span<float>().last(11), sampling, step));
    }
    REQUIRE(continued(13, sampling) == std::vector<int32_t>(all.begin() + 3, all.end()));
  }
  int taken = 0;
  continue_text(model, prompt, 13, {}, Device::cpu, [&](int32_t) { return ++taken < 4; });
  REQUIRE(taken == 4);
  REQUIRE_ERROR(continued(14, {}), "the model has 16 positions");
  REQUIRE_ERROR(continue_text(model, {}, 1, {}, Device::cpu, [](int32_t) { return true; }),
                "expected a prompt of at least one token");
}

}  // namespace accrue::test
