#include "text/sampling.h"

#include <algorithm>
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

// The share of draws for each of the four tokens.
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

TEST_CASE("a writer keeps the common beginning of its prompts", "[text]") {
  Gpt2 model({.vocabulary = 11, .context = 64, .width = 8, .layers = 2, .heads = 2});
  Parameters parameters = place(model, DType::f32, Device::cpu, 3, GradientStorage::on_demand);
  const Sampling greedy{.temperature = 0};
  TextWriter writer(model, Device::cpu);
  const auto goes_on = [&](TextWriter& by, const std::vector<int32_t>& prompt) {
    std::vector<int32_t> taken;
    by.go_on(prompt, 6, greedy, [&](int32_t token) {
      taken.push_back(token);
      return true;
    });
    return taken;
  };
  const auto anew = [&](const std::vector<int32_t>& prompt) {
    TextWriter other(model, Device::cpu);
    return goes_on(other, prompt);
  };
  std::vector<int32_t> chat{4, 1, 9};
  for (int turn = 0; turn < 4; ++turn) {
    const auto answer = goes_on(writer, chat);
    REQUIRE(answer == anew(chat));
    chat.insert(chat.end(), answer.begin(), answer.end());
    chat.push_back(2);
  }
  // The last turn reused all tokens that had been read: everything before the last token of the
  // last answer.
  REQUIRE(writer.kept() > 12);
  const std::vector<int32_t> other{4, 1, 7, 7};
  REQUIRE(goes_on(writer, other) == anew(other));
  REQUIRE(writer.kept() == 2);
  REQUIRE(goes_on(writer, other) == anew(other));
  REQUIRE(writer.kept() == 3);
}

TEST_CASE("tokens that are there already are drawn less often", "[text]") {
  Gpt2 model({.vocabulary = 11, .context = 64, .width = 8, .layers = 1, .heads = 2});
  Parameters parameters = place(model, DType::f32, Device::cpu, 3, GradientStorage::on_demand);
  const std::vector<int32_t> prompt{4, 1, 9};
  const Sampling sampling{.temperature = 0, .repetition_penalty = 1.7};
  std::vector<int32_t> all = prompt, taken;
  for (int i = 0; i < 8; ++i) {
    const NoGrad no_grad;
    const Tensor logits = model.forward(Tensor::from(all, {1, std::ssize(all)}), Pass::eval());
    std::vector<float> last(logits.span<float>().end() - 11, logits.span<float>().end());
    for (size_t token = 0; token < last.size(); ++token)
      if (std::ranges::count(all, int32_t(token)) > 0)
        last[token] = last[token] > 0 ? last[token] / 1.7f : last[token] * 1.7f;
    all.push_back(draw_token(last, {.temperature = 0}, 0));
  }
  continue_text(model, prompt, 8, sampling, Device::cpu, [&](int32_t token) {
    taken.push_back(token);
    return true;
  });
  REQUIRE(taken == std::vector<int32_t>(all.begin() + 3, all.end()));
  REQUIRE_ERROR(check_sampling({.repetition_penalty = 0}), "repetition penalty of 0");
}

TEST_CASE("a generation_config.json says how its model writes", "[text]") {
  const auto read = [](const std::string& json) {
    return generation_in({{"generation_config.json", json}, {"config.json", "{}"}});
  };
  const Generation plain = read(R"({"eos_token_id": 2, "temperature": 0.6, "min_p": null})");
  REQUIRE(plain.sampling.temperature == 0);
  REQUIRE(plain.ends == std::vector<int32_t>{2});
  REQUIRE(plain.unheeded.empty());
  const Generation drawn = read(R"({"do_sample": true, "eos_token_id": [7, 8], "top_p": 0.8,
      "temperature": 0.7, "repetition_penalty": 1.1, "min_p": 0.1, "num_beams": 1,
      "suppress_tokens": [3]})");
  REQUIRE(drawn.sampling.temperature == 0.7);
  REQUIRE(drawn.sampling.top_p == 0.8);
  REQUIRE(drawn.sampling.top_k == 50);
  REQUIRE(drawn.sampling.repetition_penalty == 1.1);
  REQUIRE(drawn.ends == std::vector<int32_t>{7, 8});
  REQUIRE(drawn.unheeded == std::vector<std::string>{"min_p 0.1", "suppress_tokens [3]"});
  REQUIRE(read(R"({"do_sample": true, "top_k": 0})").sampling.top_k == 0);
  REQUIRE(generation_in({{"config.json", R"({"eos_token_id": 5})"}}).ends ==
          std::vector<int32_t>{5});
  REQUIRE(generation_in({}).ends.empty());
  REQUIRE_ERROR(read(R"({"eos_token_id": "x"})"), "eos_token_id is \"x\"");
}

}  // namespace accrue::test
