// Losses in which classes, labels and samples count differently.

#include "kernels/weighted_losses.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/cross_entropy.h"
#include "kernels/gather_samples.h"
#include "kernels/judged.h"
#include "kernels/losses.h"
#include "kernels/weighted_cross_entropy.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

const std::vector<float> no_weights;

Tensor floats(const std::vector<float>& values, Device device) {
  return Tensor::from(values, {std::ssize(values)}, device);
}
// Weights of samples beside x; undefined if there are none.
Tensor weights_beside(const Tensor& x, const std::vector<float>& values) {
  return values.empty() ? Tensor() : floats(values, x.device());
}

struct Case {
  std::string name;
  size_t C;
  std::vector<int32_t> labels;
  CrossEntropyOptions options;
  std::vector<float> samples;

  double weight_of(size_t n) const {
    if (labels[n] == not_judged) return 0;
    const auto& w = options.class_weights;
    return (samples.empty() ? 1 : double(samples[n])) *
           (w.empty() ? 1 : w[static_cast<size_t>(labels[n])]);
  }
  double weight() const {
    double sum = 0;
    for (size_t n = 0; n < labels.size(); ++n) sum += weight_of(n);
    return sum;
  }
  // The contract's formula, from probabilities.
  double loss(const Values& x) const {
    const double e = options.label_smoothing;
    double loss = 0;
    for (size_t n = 0; n < labels.size(); ++n) {
      if (labels[n] == not_judged) continue;
      double sum = 0, own = 0;
      for (size_t c = 0; c < C; ++c) sum += std::exp(x[n * C + c]);
      for (size_t c = 0; c < C; ++c) {
        const double w = options.class_weights.empty() ? 1 : options.class_weights[c];
        const double q = (1 - e) * w * (static_cast<size_t>(labels[n]) == c) + e / double(C) * w;
        own += q * (std::log(sum) - x[n * C + c]);
      }
      loss += (samples.empty() ? 1 : double(samples[n])) * own;
    }
    return weight() == 0 ? 0 : loss / weight();
  }
};

std::vector<Case> cases() {
  const std::vector<double> w{0.5, 2, 0.25, 1.5};
  const std::vector<int32_t> labels{2, 0, 1, 3, not_judged}, none(5, not_judged);
  const std::vector<float> s{1, 0, 2.5f, 0.25f, 3};
  return {{"plain", 4, labels, {}, {}},
          {"class weights", 4, labels, {.class_weights = w}, {}},
          {"smoothing", 4, labels, {.label_smoothing = 0.1}, {}},
          {"class weights and smoothing", 4, labels, {w, 0.1}, {}},
          {"smoothing alone", 4, labels, {w, 1}, {}},
          {"sample weights", 4, labels, {}, s},
          {"all weights", 4, labels, {w, 0.1}, s},
          {"weights that are 0", 4, {1, 1, 1, 1, 1}, {{1, 0, 1, 1}, 0}, {}},
          {"samples that do not count", 4, labels, {w, 0.1}, {0, 0, 0, 0, 0}},
          {"nothing judged", 4, none, {w, 0.1}, {}},
          {"one class", 1, {0, 0, 0, not_judged, 0}, {{3}, 0.5}, s},
          {"33 classes", 33, {32, 0, 31, 7, 1}, {std::vector<double>(33, 0.5), 0.2}, s},
          {"two classes", 2, {1, 0, 1, 1, 0}, {{0.125, 8}, 0}, s}};
}

Op op_of(const Case& each) {
  const auto C = static_cast<int64_t>(each.C);
  return {.name = "cross_entropy of " + each.name,
          .inputs = {{std::ssize(each.labels), C}},
          .run =
              [=](const auto& in) {
                return cross_entropy(in[0], indices(each.labels, in[0]), each.options,
                                     weights_beside(in[0], each.samples));
              },
          .reference = [=](const auto& in) { return Values{each.loss(in[0])}; },
          .depth = double(2 * each.C) + 24,
          .low = -4,
          .high = 4};
}

}  // namespace

TEST_CASE("cross_entropy of classes and samples that count differently", "[ops]") {
  for (const Case& each : cases()) {
    INFO(each.name);
    check_op(op_of(each));
    const Tensor labels = indices(each.labels, ones({1}));
    const Tensor weight = cross_entropy_weight(labels, static_cast<int64_t>(each.C), each.options,
                                               weights_beside(labels, each.samples));
    REQUIRE(weight.item() == Approx(each.weight()).epsilon(1e-15));
  }
}

// torch.nn.functional.cross_entropy(x, y, weight=w, label_smoothing=e) in float64, PyTorch 2.
TEST_CASE("weighted cross_entropy is PyTorch's", "[golden]") {
  const Values x{0.5, -1.25, 2,   0.25,  1.5,   0.75, -0.5, -2,  -0.25, 3,
                 1,   0,     2.5, -0.75, 0.125, 1,    0,    0.5, -1.5,  2.25};
  struct Expected {
    double e, loss;
    Values dx;
  };
  const std::vector<Expected> all{{0,
                                   0.8110137126809142,
                                   {0.009142231538668354,
                                    0.0015886816264114303,
                                    -0.01785089024641479,
                                    0.007119977081335009,
                                    -0.045819038252990225,
                                    0.033929154467116286,
                                    0.009720865508239165,
                                    0.0021690182776347524,
                                    0.0149086831707926,
                                    -0.08608822860164078,
                                    0.05203641731020583,
                                    0.019143128120642484,
                                    0.26048879207596926,
                                    0.010100246561787854,
                                    0.02422923194004901,
                                    -0.29481827057780613,
                                    0,
                                    0,
                                    0,
                                    0}},
                                  {0.1,
                                   0.9586022871634302,
                                   {0.009172280318147335,
                                    -0.009659702727357796,
                                    -0.00012301781179371345,
                                    0.0006104402210041806,
                                    -0.028914856527039862,
                                    0.02598147846231393,
                                    0.009343874642621954,
                                    -0.006410496577896043,
                                    0.011268662176573463,
                                    -0.06881754876829181,
                                    0.04812662201349581,
                                    0.009422264578222664,
                                    0.2499500258364986,
                                    -0.0019590498452838985,
                                    0.022051957773170133,
                                    -0.2700429337643849,
                                    0,
                                    0,
                                    0,
                                    0}},
                                  {1,
                                   2.286899457506074,
                                   {0.009442719333458152,
                                    -0.11089516191128083,
                                    0.15942783409979597,
                                    -0.057975391521973264,
                                    0.1232227790065134,
                                    -0.0455476055809073,
                                    0.005950956852067049,
                                    -0.0836261302776732,
                                    -0.021491526771398782,
                                    0.08661856973184892,
                                    0.012938464343105669,
                                    -0.07806550730355573,
                                    0.15510112968126255,
                                    -0.11049271750892968,
                                    0.0024564902712602074,
                                    -0.047064902443593085,
                                    0,
                                    0,
                                    0,
                                    0}}};
  for (const Expected& expected : all) {
    const Tensor leaf = require_grad(tensor_with(x, {5, 4}, DType::f64));
    const Tensor loss = cross_entropy(leaf, indices({2, 0, 1, 3, not_judged}, leaf),
                                      {{0.5, 2, 0.25, 1.5}, expected.e});
    backward(loss);
    REQUIRE(std::abs(loss.item() - expected.loss) <= 1e-15 * 4);
    REQUIRE(largest_difference(to_doubles(grad(leaf)), expected.dx) <= 1e-16 * 4);
  }
}

TEST_CASE("cross_entropy without weights is the plain one, and keeps its digits", "[ops]") {
  // Learnt to 1 part in 1e9, which 1 - p would lose.
  const std::vector<float> x{21, 0, -1, 0, 30, 2};
  const Tensor plain = require_grad(Tensor::from(x, {2, 3}, test_device())),
               weighted = require_grad(Tensor::from(x, {2, 3}, test_device()));
  const Tensor labels = indices({0, 1}, plain);
  const Tensor a = cross_entropy(plain, labels), b = cross_entropy(weighted, labels, {});
  REQUIRE(b.item() == Approx(a.item()).epsilon(4 * 0x1p-24));
  backward(a);
  backward(b);
  REQUIRE(to_doubles(grad(weighted))[1] == Approx(to_doubles(grad(plain))[1]).epsilon(8 * 0x1p-24));
}

TEST_CASE("weighted cross_entropy over many rows and classes does not depend on the threads",
          "[ops]") {
  constexpr size_t N = 700, C = 301;  // several blocks, and two pieces of constants
  Case each{"many", C, std::vector<int32_t>(N), {std::vector<double>(C), 0.1}, {}};
  RandomStream random(5);
  for (double& w : each.options.class_weights) w = random.uniform(0, 3);
  for (size_t n = 0; n < N; ++n) {
    each.labels[n] = static_cast<int32_t>(random.below(C + 1)) - 1;
    each.samples.push_back(random.uniform(0, 2));
  }
  std::vector<float> logits(N * C);
  for (float& logit : logits) logit = random.uniform(-9, 9);
  const auto run = [&] {
    const Tensor x = require_grad(Tensor::from(logits, {N, C}, test_device()));
    const Tensor loss =
        cross_entropy(x, indices(each.labels, x), each.options, weights_beside(x, each.samples));
    backward(loss);
    Values result = to_doubles(grad(x));
    result.push_back(loss.item());
    return result;
  };
  const Values alone = [&] {
    const ThreadScope scope(1);
    return run();
  }();
  REQUIRE(alone.back() ==
          Approx(each.loss(Values(logits.begin(), logits.end()))).epsilon(64 * 0x1p-24));
  for (const int threads : {2, 3}) {
    const ThreadScope scope(threads);
    const bool has_same_bits = run() == alone;  // too many to print
    REQUIRE(has_same_bits);
  }
}

TEST_CASE("weighted cross_entropy refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = require_grad(Tensor::full({2, 3}, 1, DType::f32, test_device()));
  const Tensor labels = indices({0, 2}, x);
  REQUIRE_ERROR(cross_entropy(x, indices({0}, x), {.label_smoothing = 0}), "labels i32 [1] on");
  REQUIRE_ERROR(cross_entropy(x, labels, {.class_weights = {1, 2}}),
                "2 class weights for 3 classes");
  REQUIRE_ERROR(cross_entropy(x, labels, {.class_weights = {1, -2, 1}}),
                "the weight of class 1 is -2");
  REQUIRE_ERROR(cross_entropy(x, labels, {.class_weights = {1, 1, std::nan("")}}),
                "the weight of class 2 is nan");
  for (const double e : {-0.1, 1.5, std::nan("")})
    REQUIRE_ERROR(cross_entropy(x, labels, {.label_smoothing = e}),
                  fmt::format("label_smoothing is {}", e));
  REQUIRE_ERROR(cross_entropy(x, labels, {{1, 0, 1}, 0.1}),
                "the weight of class 1 is 0, but label_smoothing is 0.1");
  REQUIRE_ERROR(cross_entropy(x, labels, {}, ones({3})), "sample weights f32 [3] on");
  REQUIRE_ERROR(cross_entropy(x, labels, {}, require_grad(ones({2}))), "want a gradient");
  REQUIRE_ERROR(cross_entropy_weight(ones({2}), 3, {}), "labels f32 [2] of 3 classes");
  REQUIRE_ERROR(sample_weight_sum(labels), "sample weights i32 [2]");
  REQUIRE_ERROR(detail::add_class_score(ones({6}), x, labels), "expected score f64 [6]");
  if (is_meta(test_device())) return;  // which knows no values
  for (const int32_t bad : {3, -2}) {
    const Tensor wrong = indices({0, bad}, x);
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(cross_entropy(x, wrong, {.label_smoothing = 0.1}),
                    fmt::format("label {} of sample 1 is outside [0, 3)", bad));
      continue;
    }
    zero_grad(x);
    const Tensor loss = cross_entropy(x, wrong, {.label_smoothing = 0.1});
    REQUIRE(std::isnan(loss.item()));
    backward(loss);
    const Values dx = to_doubles(grad(x));
    for (size_t i = 0; i < dx.size(); ++i) REQUIRE(std::isnan(dx[i]) == (i >= 3));
  }
  for (const float bad : {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const Tensor wrong = floats({1, bad}, x.device());
    if (test_device() == Device::cpu)
      REQUIRE_ERROR(cross_entropy(x, labels, {}, wrong), "the weight of sample 1 is");
    else REQUIRE(std::isnan(cross_entropy(x, labels, {}, wrong).item()));
  }
}

TEST_CASE("the score of classes counts what is right of each", "[ops]") {
  constexpr size_t N = 500, C = 7;
  RandomStream random(4);
  std::vector<float> logits(N * C);
  for (float& logit : logits) logit = static_cast<float>(random.below(4));  // equals are many
  logits[3 * C + 2] = std::nanf("");
  std::vector<int32_t> labels(N);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(C + 1)) - 1;
  Values expected(2 * C, 1);
  for (size_t n = 0; n < N; ++n) {
    if (labels[n] < 0) continue;
    const float* row = &logits[n * C];
    const auto largest = std::max_element(row, row + C) - row;
    expected[2 * size_t(labels[n])] += n != 3 && largest == labels[n];
    expected[2 * size_t(labels[n]) + 1] += 1;
  }
  for (int order = 0; order < thread_orders(); ++order) {
    set_thread_order(order);
    const Tensor score = Tensor::full({2 * C}, 1, DType::f64, test_device());
    const Tensor x = Tensor::from(logits, {N, C}, test_device());
    detail::add_class_score(score, x, indices(labels, x));
    REQUIRE(to_doubles(score) == expected);
  }
}

namespace {

using LossOfTensors = std::function<Tensor(const Tensor& x, const Tensor& t, const Tensor& s)>;
using Formula = std::function<double(double x, double t, size_t c)>;

// Checks a loss of x [3, C, ...].
void check_loss(const std::string& name, const Shape& shape, const Values& t,
                const LossOfTensors& loss, const Formula& f) {
  const auto F = static_cast<size_t>(shape.numel() / shape[0]),
             P = F / static_cast<size_t>(shape.rank() > 1 ? shape[1] : 1);
  const auto C = F / P;
  for (const std::vector<float>& s : {no_weights, {0.5f, 2, 0.125f}, {0, 3, 0.25f}, {0, 0, 0}}) {
    double W = 0;
    for (size_t n = 0; n < 3; ++n) W += s.empty() ? 1 : double(s[n]);
    check_op({.name = name,
              .inputs = {shape},
              .run =
                  [=](const auto& in) {
                    const Tensor there = dispatch_floating(in[0].dtype(), [&]<class T>() {
                      std::vector<T> rounded(t.size());
                      std::ranges::transform(t, rounded.begin(),
                                             [](double v) { return T(Wide<T>(v)); });
                      return Tensor::from(rounded, shape, in[0].device());
                    });
                    return loss(in[0], there, weights_beside(in[0], s));
                  },
              .reference =
                  [=](const auto& in) {
                    double sum = 0;
                    for (size_t i = 0; i < t.size(); ++i)
                      sum += (s.empty() ? 1 : double(s[i / F])) * f(in[0][i], t[i], i / P % C);
                    return Values{W == 0 ? 0 : sum / double(F) / W};
                  },
              .depth = double(t.size()) + 16,
              .low = -2,
              .high = 2});
  }
}

}  // namespace

TEST_CASE("losses of samples that count differently", "[ops]") {
  const Values far{2.5, -2.5, 3, -3, -4, 4}, near{0.5, -1, 0.25, 0, 1, 2};
  for (const Shape& shape : {Shape{3, 2}, Shape{3, 1, 2}}) {
    check_loss(
        "mse_loss", shape, near,
        [](const Tensor& x, const Tensor& t, const Tensor& s) { return mse_loss(x, t, s); },
        [](double x, double t, size_t) { return (x - t) * (x - t); });
    check_loss(
        "l1_loss", shape, far,
        [](const Tensor& x, const Tensor& t, const Tensor& s) { return l1_loss(x, t, s); },
        [](double x, double t, size_t) { return std::abs(x - t); });
    // No x in [-2, 2) comes near a target, where the loss at beta 0 has no derivative.
    for (const double beta : {0.0, 0.5, 3.0})
      check_loss(
          "smooth_l1_loss", shape, far,
          [=](const Tensor& x, const Tensor& t, const Tensor& s) {
            return smooth_l1_loss(x, t, beta, s);
          },
          [=](double x, double t, size_t) {
            const double d = std::abs(x - t);
            return d < beta ? d * d / (2 * beta) : d - beta / 2;
          });
    for (const bool weighted : {false, true}) {
      std::vector<double> p;
      if (weighted) p = shape[1] == 2 ? std::vector{0.25, 3.0} : std::vector{3.0};
      check_loss(
          "bce_with_logits", shape, {0, 1, 1, 0.25, 0.875, 0.5},
          [=](const Tensor& x, const Tensor& t, const Tensor& s) {
            return bce_with_logits(x, t, p, s);
          },
          [=](double x, double t, size_t c) {
            const double q = 1 / (1 + std::exp(-x));
            return -(p.empty() ? 1 : p[c]) * t * std::log(q) - (1 - t) * std::log(1 - q);
          });
    }
  }
  check_loss(
      "mse_loss of single numbers", {3}, {1, 2, 3},
      [](const Tensor& x, const Tensor& t, const Tensor& s) { return mse_loss(x, t, s); },
      [](double x, double t, size_t) { return (x - t) * (x - t); });
}

// torch.nn.functional.binary_cross_entropy_with_logits(x, t, pos_weight=p) and
// smooth_l1_loss(x, t, beta=0.5) in float64, PyTorch 2.
TEST_CASE("bce_with_logits with positive weights, and smooth_l1_loss, are PyTorch's", "[golden]") {
  const Tensor x = require_grad(
      tensor_with({0.5, -1.25, 2, 0.25, 1.5, 0.75, -0.5, -2, -0.25, 3, 1, 0}, {3, 4}, DType::f64));
  const Tensor t = tensor_with({0, 1, 1, 0.25, 1, 0.9, 0, 0.5, 0, 0, 1, 1}, {3, 4}, DType::f64);
  const Tensor bce = bce_with_logits(x, t, std::array{0.5, 2.0, 0.25, 1.5});
  backward(bce);
  REQUIRE(std::abs(bce.item() - 1.0525967091467388) <= 1e-15);
  REQUIRE(largest_difference(to_doubles(grad(x)),
                             {0.05187161093348788, -0.12954997686244854, -0.0024833942087941186,
                              0.021454046958043566, -0.0076010634919315145, -0.04246337263056279,
                              0.03146172239984545, -0.050083028956029424, 0.03648529159285016,
                              0.07938117723520279, -0.005602946278541565, -0.0625}) <= 1e-16);
  zero_grad(x);
  const Tensor smooth = smooth_l1_loss(x, t, 0.5);
  backward(smooth);
  REQUIRE(std::abs(smooth.item() - 0.7779166666666667) <= 1e-15);
  const double d = 1.0 / 12;
  REQUIRE(largest_difference(to_doubles(grad(x)),
                             {d, -d, d, 0, d, -0.025, -d, -d, -d / 2, d, 0, -d}) <= 1e-16);
}

TEST_CASE("bce_with_logits with positive weights survives large logits", "[ops]") {
  const Tensor x = require_grad(
      Tensor::from(std::vector<float>{1e4f, -1e4f, 1e4f, -1e4f}, {4, 1}, test_device()));
  const Tensor t = Tensor::from(std::vector<float>{1, 1, 0, 0}, {4, 1}, test_device());
  const Tensor loss = bce_with_logits(x, t, std::array{3.0});
  REQUIRE(loss.item() == 1e4);
  backward(loss);
  REQUIRE(to_doubles(grad(x)) == Values{0, -0.75, 0.25, 0});
}

TEST_CASE("losses of samples over many blocks do not depend on the threads", "[ops]") {
  constexpr int64_t N = 1003, F = 100;
  std::vector<float> values(N * F), weights(N);
  RandomStream random(1);
  for (float& v : values) v = random.uniform(-1, 3);
  for (float& s : weights) s = random.uniform(0, 2);
  double expected = 0, W = 0;
  for (int64_t n = 0; n < N; ++n) {
    W += double(weights[size_t(n)]);
    for (int64_t i = 0; i < F; ++i) {
      const double v = values[size_t(n * F + i)];
      expected += double(weights[size_t(n)]) * v * v / F;
    }
  }
  const Tensor zero = Tensor::full({N, F}, 0, DType::f32, test_device());
  std::vector<Values> results;
  for (const int count : {1, 2, 3}) {
    const ThreadScope scope(count);
    const Tensor x = require_grad(Tensor::from(values, {N, F}, test_device()));
    const Tensor loss = mse_loss(x, zero, floats(weights, x.device()));
    backward(loss);
    results.push_back(to_doubles(grad(x)));
    results.back().push_back(loss.item());
  }
  const bool have_same_bits = results[0] == results[1] && results[0] == results[2];
  REQUIRE(have_same_bits);  // too many to print
  REQUIRE(results[0].back() == Approx(expected / W).epsilon(8 * 0x1p-24));
  REQUIRE(sample_weight_sum(floats(weights, zero.device())).item() == Approx(W).epsilon(1e-13));
}

TEST_CASE("the score of labels counts what is told and true", "[ops]") {
  const Tensor x = tensor_with({2, 1, -1, 3, 0, -2}, {3, 2}, DType::f32),
               t = tensor_with({1, 0, 1, 1, 0, 0}, {3, 2}, DType::f32);
  const Tensor score = Tensor::full({6}, 1, DType::f64, test_device());
  detail::add_label_score(score, x, t);
  REQUIRE(to_doubles(score) == Values{1 + 1, 1 + 1, 1 + 2, 1 + 1, 1 + 2, 1 + 1});
  REQUIRE_ERROR(detail::add_label_score(score, x, ones({3})), "x [3, 2] and target [3]");
}

TEST_CASE("weights of samples are gathered as they are, beside a model in 16 bits", "[ops]") {
  const Device device = test_device();
  const std::vector<float> fine{1.0009766f, 3e-5f, 12345.678f, 0};
  const Tensor weights = floats(fine, device), numbers = floats(fine, device);
  const Tensor out = Tensor::empty({3}, DType::f32, device),
               rounded = Tensor::empty({3}, DType::bf16, device);
  const auto gather = [&](const std::vector<int32_t>& index) {
    const std::array fields{detail::FieldViews{Encoding::weight, out.view(), weights.view()},
                            detail::FieldViews{Encoding::number, rounded.view(), numbers.view()}};
    detail::gather_samples(fields, {}, Tensor::from(index, {3}, device).view());
  };
  gather({2, 0, 1});
  REQUIRE(to_doubles(out) == Values{double(fine[2]), double(fine[0]), double(fine[1])});
  REQUIRE(to_doubles(rounded)[1] == 1);
  if (device == Device::cpu) return;
  gather({2, 7, 1});
  REQUIRE(std::isnan(to_doubles(out)[1]));
}

TEST_CASE("losses of samples refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({3, 2}), s = ones({3});
  REQUIRE_ERROR(mse_loss(x, s, s), "[mse_loss] x [3, 2] and target [3]");
  REQUIRE_ERROR(l1_loss(x, x, ones({2})), "[l1_loss] sample weights f32 [2]");
  REQUIRE_ERROR(mse_loss(x, require_grad(ones({3, 2})), s), "the target wants a gradient");
  REQUIRE_ERROR(smooth_l1_loss(x, x, -1), "beta is -1");
  REQUIRE_ERROR(smooth_l1_loss(ones({}), ones({})), "expected one shape [N, ...]");
  REQUIRE_ERROR(bce_with_logits(x, x, std::array{1.0, 2.0, 3.0}),
                "3 positive weights for x [3, 2]: expected none, or 2");
  REQUIRE_ERROR(bce_with_logits(x, x, std::array{1.0, -2.0}), "a positive weight is -2");
  if (test_device() == Device::cpu) {
    REQUIRE_ERROR(bce_with_logits(x, Tensor::full({3, 2}, 1.5, DType::f32, Device::cpu),
                                  std::array{1.0, 2.0}),
                  "target 0 is 1.5");
    REQUIRE_ERROR(mse_loss(x, x, Tensor::full({3}, -1, DType::f32, Device::cpu)),
                  "the weight of sample 0 is -1");
  }
}

}  // namespace accrue::test
