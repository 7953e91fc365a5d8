#include "kernels/pixel_cross_entropy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

struct Pixels {
  size_t N, C, P;
  std::vector<int32_t> labels;
  std::vector<double> weights;

  double loss(const Values& x) const {
    double loss = 0, judged = 0;
    for (size_t i = 0; i < N * P; ++i) {
      if (labels[i] == not_judged) continue;
      ++judged;
      const auto logit = [&](size_t c) { return x[(i / P * C + c) * P + i % P]; };
      double sum = 0;
      for (size_t c = 0; c < C; ++c) sum += std::exp(logit(c));
      const auto label = static_cast<size_t>(labels[i]);
      loss += (weights.empty() ? 1 : weights[label]) * (std::log(sum) - logit(label));
    }
    return judged > 0 ? loss / judged : 0;
  }
};

Pixels random_pixels(size_t N, size_t C, size_t P) {
  RandomStream random(17);
  Pixels pixels{N, C, P, std::vector<int32_t>(N * P), {}};
  for (int32_t& label : pixels.labels)
    label = static_cast<int32_t>(random.below(static_cast<uint32_t>(C)));
  return pixels;
}

}  // namespace

TEST_CASE("pixel_cross_entropy", "[ops]") {
  // Runs of 64 pixels of an image, and a part of a run.
  for (const int64_t W : {5, 35}) {
    for (const bool weighted : {false, true}) {
      Pixels pixels = random_pixels(2, 3, static_cast<size_t>(2 * W));
      if (weighted) pixels.weights = {0.25, 2, 1};
      check_op({.name = weighted ? "pixel_cross_entropy with weights" : "pixel_cross_entropy",
                .inputs = {{2, 3, 2, W}},
                .run =
                    [=](const auto& in) {
                      const Tensor labels = indices(pixels.labels, in[0]).reshape({2, 1, 2, W});
                      return pixel_cross_entropy(in[0], labels, pixels.weights);
                    },
                .reference = [=](const auto& in) { return Values{pixels.loss(in[0])}; },
                .depth = 64 + 16,
                .low = -4,
                .high = 4});
    }
  }
}

TEST_CASE("pixel_cross_entropy of what is judged", "[ops]") {
  for (const int64_t W : {5, 35}) {
    for (const bool any : {true, false}) {
      Pixels pixels = random_pixels(2, 3, static_cast<size_t>(2 * W));
      for (size_t i = 0; i < pixels.labels.size(); ++i)
        if (i % 3 == 0 || !any) pixels.labels[i] = not_judged;
      pixels.weights = {0.25, 2, 1};
      check_op({.name = any ? "pixel_cross_entropy of some pixels" : "pixel_cross_entropy of none",
                .inputs = {{2, 3, 2, W}},
                .run =
                    [=](const auto& in) {
                      const Tensor labels = indices(pixels.labels, in[0]).reshape({2, 1, 2, W});
                      return pixel_cross_entropy(in[0], labels, pixels.weights,
                                                 judged_weight(labels));
                    },
                .reference = [=](const auto& in) { return Values{pixels.loss(in[0])}; },
                .depth = 64 + 16,
                .low = -4,
                .high = 4});
    }
  }
}

TEST_CASE("judged_weight counts samples by their judged labels", "[ops]") {
  const Tensor like = ones({1});
  std::vector<int32_t> labels(3 * 75 * 101, 2);  // several blocks
  const auto weight = [&] {
    return judged_weight(indices(labels, like).reshape({3, 1, 75, 101})).item();
  };
  REQUIRE(weight() == 3);
  for (size_t i = 0; i < labels.size(); i += 5) labels[i] = not_judged;
  REQUIRE(weight() == double(3 * 75 * 101 - 4545) / (75 * 101));
  std::ranges::fill(labels, not_judged);
  REQUIRE(weight() == 0);
  REQUIRE_ERROR(judged_weight(ones({2, 3})), "labels f32 [2, 3]: expected i32");
  const Tensor sum = Tensor::full({1}, 1, DType::f64, test_device()),
               three = Tensor::full({}, 3, DType::f64, test_device());
  add_weighted(sum.view(), ones({1}).view(), three.view());
  REQUIRE(sum.item() == 4);
}

TEST_CASE("pixel_cross_entropy of many pixels does not depend on the threads", "[ops]") {
  constexpr size_t N = 3, C = 4, P = 75 * 101;  // several blocks, some of which span two images
  const Pixels pixels = random_pixels(N, C, P);
  RandomStream random(5);
  std::vector<float> logits(N * C * P);
  for (float& logit : logits) logit = random.uniform(-9, 9);
  const auto run = [&] {
    const Tensor x = require_grad(Tensor::from(logits, {N, C, 75, 101}, test_device()));
    const Tensor loss = pixel_cross_entropy(x, indices(pixels.labels, x).reshape({N, 1, 75, 101}));
    backward(loss);
    Values result = to_doubles(grad(x));
    result.push_back(loss.item());
    return result;
  };
  const Values alone = [&] {
    const ThreadScope scope(1);
    return run();
  }();
  // Runs of up to 256 terms in float32; each has C terms and a dozen operations.
  REQUIRE(alone.back() ==
          Approx(pixels.loss(Values(logits.begin(), logits.end()))).epsilon(300 * 0x1p-24));
  for (const int threads : {2, 3}) {
    const ThreadScope scope(threads);
    REQUIRE(run() == alone);
  }
}

TEST_CASE("pixel_cross_entropy refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = require_grad(Tensor::full({1, 3, 1, 2}, 1, DType::f32, test_device()));
  const Tensor labels = indices({0, 2}, x).reshape({1, 1, 1, 2});
  REQUIRE_ERROR(pixel_cross_entropy(x, indices({0, 2}, x)), "labels i32 [2] on");
  REQUIRE_ERROR(pixel_cross_entropy(x, labels, std::array{1.0, 2.0}),
                "2 class weights for 3 classes");
  REQUIRE_ERROR(pixel_cross_entropy(x, labels, std::array{1.0, -2.0, 1.0}),
                "the weight of class 1 is -2");
  REQUIRE_ERROR(pixel_cross_entropy(x, labels, {}, ones({1})), "judged is f32 [1]");
  if (test_device() == Device::cpu)
    REQUIRE_ERROR(pixel_cross_entropy(x, indices({-2, 2}, x).reshape({1, 1, 1, 2}), {},
                                      judged_weight(labels)),
                  "label -2 of pixel 0 is outside [0, 3)");
  if (is_meta(test_device())) return;  // which knows no values
  for (const int32_t bad : {3, -1}) {
    const Tensor wrong = indices({0, bad}, x).reshape({1, 1, 1, 2});
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(pixel_cross_entropy(x, wrong),
                    fmt::format("label {} of pixel 1 is outside [0, 3)", bad));
      continue;
    }
    zero_grad(x);
    const Tensor loss = pixel_cross_entropy(x, wrong);
    REQUIRE(std::isnan(loss.item()));
    backward(loss);
    const Values dx = to_doubles(grad(x));
    for (size_t i = 0; i < dx.size(); ++i) REQUIRE(std::isnan(dx[i]) == (i % 2 == 1));
  }
}

}  // namespace accrue::test
