#include "kernels/dice_loss.h"

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

// The plain formula; p and t are indexed by sample, plane and pixel.
double dice_of(size_t N, size_t K, size_t P, const Values& p, const Values& t,
               const std::vector<double>& weights) {
  double loss = 0;
  for (size_t plane = 0; plane < N * K; ++plane) {
    double both = 0, sum = 1;
    for (size_t i = plane * P; i < (plane + 1) * P; ++i) {
      both += p[i] * t[i];
      sum += p[i] + t[i];
    }
    loss += (weights.empty() ? 1 : weights[plane % K]) * (1 - (2 * both + 1) / sum);
  }
  return loss / double(N * K);
}

Values softmax_of(const Values& x, size_t N, size_t K, size_t P) {
  Values p(x.size());
  for (size_t n = 0; n < N; ++n)
    for (size_t i = 0; i < P; ++i) {
      double sum = 0;
      for (size_t k = 0; k < K; ++k) sum += std::exp(x[(n * K + k) * P + i]);
      for (size_t k = 0; k < K; ++k)
        p[(n * K + k) * P + i] = std::exp(x[(n * K + k) * P + i]) / sum;
    }
  return p;
}

Values one_hot_of(const std::vector<int32_t>& labels, size_t N, size_t K, size_t P) {
  Values t(N * K * P);
  for (size_t i = 0; i < N * P; ++i)
    t[(i / P * K + static_cast<size_t>(labels[i])) * P + i % P] = 1;
  return t;
}

// The values as a tensor with x's shape, dtype and device.
Tensor like(const Tensor& x, const Values& values) {
  return dispatch_floating(x.dtype(), [&]<class T>() {
    std::vector<T> rounded;
    for (const double value : values) rounded.push_back(T(Wide<T>(value)));
    return Tensor::from(rounded, x.shape(), x.device());
  });
}

}  // namespace

TEST_CASE("dice_loss of planes", "[ops]") {
  constexpr size_t N = 2, K = 3, P = 2 * 35;  // a run of 64 pixels, and a part of a run
  RandomStream random(8);
  Values masks(N * K * P);
  for (double& t : masks) t = random.below(3) / 2.0;  // 0, 1/2 and 1 in every type
  for (const std::vector<double>& weights : {std::vector<double>{}, {0.5, 2, 1}})
    check_op({.name = "dice_loss of planes",
              .inputs = {{N, K, 2, 35}},
              .run = [=](const auto& in) { return dice_loss(in[0], like(in[0], masks), weights); },
              .reference =
                  [=](const auto& in) {
                    Values p(in[0].size());
                    for (size_t i = 0; i < p.size(); ++i) p[i] = 1 / (1 + std::exp(-in[0][i]));
                    return Values{dice_of(N, K, P, p, masks, weights)};
                  },
              .depth = 64 + 16,
              .low = -4,
              .high = 4});
}

TEST_CASE("dice_loss of classes", "[ops]") {
  constexpr size_t N = 2, K = 3, P = 2 * 35;
  RandomStream random(9);
  std::vector<int32_t> labels(N * P);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(K));
  for (const std::vector<double>& weights : {std::vector<double>{}, {0.5, 2, 1}})
    check_op({.name = "dice_loss of classes",
              .inputs = {{N, K, 2, 35}},
              .run =
                  [=](const auto& in) {
                    return dice_loss(in[0], indices(labels, in[0]).reshape({N, 1, 2, 35}), weights);
                  },
              .reference =
                  [=](const auto& in) {
                    return Values{dice_of(N, K, P, softmax_of(in[0], N, K, P),
                                          one_hot_of(labels, N, K, P), weights)};
                  },
              .depth = 64 + 32,
              .low = -4,
              .high = 4});
}

// The loss is the mean over samples of the Dice loss of their judged pixels. One sample has none.
TEST_CASE("dice_loss of what is judged", "[ops]") {
  constexpr size_t N = 3, K = 3, P = 2 * 35;
  RandomStream random(9);
  std::vector<int32_t> labels(N * P);
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] =
        i % (2 + i / P) == 0 || i / P == 1 ? not_judged : static_cast<int32_t>(random.below(K));
  const std::vector<double> weights{0.5, 2, 1};
  check_op({.name = "dice_loss of what is judged",
            .inputs = {{N, K, 2, 35}},
            .run =
                [=](const auto& in) {
                  const Tensor masks = indices(labels, in[0]).reshape({N, 1, 2, 35});
                  return dice_loss(in[0], masks, weights, judged_weight(masks));
                },
            .reference =
                [=](const auto& in) {
                  const Values all = softmax_of(in[0], N, K, P);
                  double loss = 0, judged = 0;
                  for (size_t n = 0; n < N; ++n) {  // each sample's judged pixels alone
                    Values p(K * P), t(K * P);
                    double of_sample = 0;
                    for (size_t i = 0; i < P; ++i) {
                      const int32_t label = labels[n * P + i];
                      if (label == not_judged) continue;
                      ++of_sample;
                      for (size_t k = 0; k < K; ++k) p[k * P + i] = all[(n * K + k) * P + i];
                      t[static_cast<size_t>(label) * P + i] = 1;
                    }
                    loss += of_sample * dice_of(1, K, P, p, t, weights);
                    judged += of_sample;
                  }
                  return Values{loss / judged};
                },
            .depth = 64 + 32,
            .low = -4,
            .high = 4});
}

TEST_CASE("dice_loss is a mean over samples, and of nothing 0", "[ops]") {
  constexpr size_t N = 3, K = 2, P = 75 * 101;  // several blocks of a plane
  RandomStream random(6);
  std::vector<float> logits(N * K * P);
  for (float& logit : logits) logit = random.uniform(-9, 9);
  std::vector<int32_t> labels(N * P);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(K));
  const auto run = [&](int64_t begin, int64_t end) {
    const Tensor x = require_grad(Tensor::from(logits, {N, K, 75, 101}, test_device()));
    const Tensor loss = dice_loss(x, indices(labels, x).reshape({N, 1, 75, 101}));
    backward(loss);
    Values result = to_doubles(grad(x));
    result.push_back(loss.item());
    const Tensor part = x.detach().slice(begin, end);
    const Tensor of_part =
        dice_loss(part, indices(labels, x).reshape({N, 1, 75, 101}).slice(begin, end));
    result.push_back(of_part.item());
    return result;
  };
  const Values all = [&] {
    const ThreadScope scope(1);
    return run(0, 1);
  }();
  const double of_samples[] = {all.back(), run(1, 2).back(), run(2, 3).back()};
  // Each is rounded to float32.
  REQUIRE(all[all.size() - 2] ==
          Approx((of_samples[0] + of_samples[1] + of_samples[2]) / 3).epsilon(4 * 0x1p-24));
  const Values p = softmax_of(Values(logits.begin(), logits.end()), N, K, P);
  // Runs of 64 terms in float32; each has K terms and a dozen operations.
  REQUIRE(all[all.size() - 2] ==
          Approx(dice_of(N, K, P, p, one_hot_of(labels, N, K, P), {})).epsilon(100 * 0x1p-24));
  for (const int threads : {2, 3}) {
    const ThreadScope scope(threads);
    REQUIRE(run(0, 1) == all);
  }
  // Both the answer and the mask are empty: s(-100) is 0 in float32.
  const Tensor none = Tensor::full({1, 1, 2, 2}, -100, DType::f32, test_device());
  REQUIRE(dice_loss(none, Tensor::full({1, 1, 2, 2}, 0, DType::f32, test_device())).item() == 0);
}

TEST_CASE("dice_loss refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = require_grad(Tensor::full({1, 3, 1, 2}, 1, DType::f32, test_device()));
  REQUIRE_ERROR(dice_loss(x, indices({0, 2}, x)), "masks i32 [2]");
  REQUIRE_ERROR(dice_loss(x, ones({1, 1, 1, 2})), "masks f32 [1, 1, 1, 2]");
  REQUIRE_ERROR(dice_loss(x, ones(x.shape()), std::array{1.0, 2.0}),
                "[dice_loss] 2 class weights for 3 classes");
  REQUIRE_ERROR(dice_loss(x, ones(x.shape()), {}, Tensor::full({}, 1, DType::f64, test_device())),
                "judged with masks of planes");
  const Tensor wrong = indices({0, 3}, x).reshape({1, 1, 1, 2});
  if (test_device() == Device::cpu) {
    REQUIRE_ERROR(dice_loss(x, wrong), "[dice_loss] label 3 of pixel 1 is outside [0, 3)");
    REQUIRE_ERROR(dice_loss(x, Tensor::full(x.shape(), 2, DType::f32, Device::cpu)),
                  "mask element 0 is 2");
    return;
  }
  if (is_meta(test_device())) return;  // which knows no values
  REQUIRE(std::isnan(dice_loss(x, wrong).item()));
}

}  // namespace accrue::test
