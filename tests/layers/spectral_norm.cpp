// Layers with spectrally normalized weights, compared with PyTorch, and in windows.

#include <cmath>

#include "accumulate/window.h"
#include "core/random.h"
#include "kernels/losses.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

std::unique_ptr<Conv2d> spectral_conv(int64_t in, int64_t out, int64_t kernel) {
  return std::make_unique<Conv2d>(in, out, kernel, Conv2dShape{}, InitScheme::kaiming,
                                  Bias::learned, WeightNorm::spectral);
}

// The same values as ramp() in scripts/golden_spectral_norm.py.
Values ramp(int64_t n) {
  Values values;
  for (int64_t i = 0; i < n; ++i) values.push_back(double((7 * i + 3) % 11 - 5) / 4);
  return values;
}

Tensor from(const Values& values, const Shape& shape, DType dtype = DType::f64) {
  return dispatch_floating(dtype, [&]<class T>() {
    std::vector<T> rounded;
    for (const double v : values) rounded.push_back(T(static_cast<Wide<T>>(v)));
    return Tensor::from(rounded, shape, test_device());
  });
}

const Parameters::Entry& entry(const std::vector<Parameters::Entry>& entries,
                               std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Parameters::Entry::name);
  REQUIRE(found != entries.end());
  return *found;
}

void set(const Parameters::Entry& entry, const Values& values) {
  entry.tensor.copy_from(from(values, entry.tensor.shape(), entry.tensor.dtype()));
}

void require_close(const Values& actual, const Values& expected) {
  REQUIRE(actual.size() == expected.size());
  // About twenty roundings of numbers near 1 in float64.
  for (size_t i = 0; i < actual.size(); ++i)
    REQUIRE(actual[i] == Approx(expected[i]).margin(1e-14));
}

double norm_of(const Values& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

Tensor random_tensor(const Shape& shape, uint64_t seed, DType dtype) {
  RandomStream random(seed);
  Values values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = random.normal();
  return from(values, shape, dtype);
}

}  // namespace

// scripts/golden_spectral_norm.py computed the numbers.
TEST_CASE("a convolution with spectral norm is PyTorch's", "[spectral]") {
  const auto conv = spectral_conv(2, 3, 2);
  const Parameters parameters = place(*conv, DType::f64, test_device(), 1);
  const Parameters::Entry& weight = entry(parameters.entries(), "weight_orig");
  set(weight, ramp(24));
  set(entry(parameters.entries(), "bias"), ramp(3));
  set(entry(parameters.buffer_entries(), "weight_u"), {0.6, 0, 0.8});
  conv->begin_window();
  const Tensor y = (*conv)(from(ramp(18), {1, 2, 3, 3}));
  require_close(to_doubles(entry(parameters.buffer_entries(), "weight_u").tensor),
                {0.46887000407669266, 0.50475291255194976, 0.72483475120019325});
  require_close(
      to_doubles(entry(parameters.buffer_entries(), "weight_v").tensor),
      {-0.1414213562373095, -0.023570226039551608, 0.35355339059327384, -0.30641293851417056,
       -0.1885618083164127, 0.1885618083164127, -0.47140452079103173, 0.68353655514699596});
  require_close(to_doubles(y), {-1.0835801019656621, -0.65223828746930312, -0.068658185503641056,
                                -0.75373047911550528, -0.55148640172008756, 1.0216425687960453,
                                0.81865818550364111, 0.99626952088449472, 0.021642568796045147,
                                -0.33358010196566212, -1.3231289705161331, -0.2828340061425611});
  // sum_i y[i] * ramp[i] has the same gradient as the mean square of y - target, with target = y -
  // 6 ramp for 12 elements.
  Values target = to_doubles(y);
  const Values c = ramp(12);
  for (size_t i = 0; i < target.size(); ++i) target[i] -= c[i] * 6;
  backward(mse_loss(y, from(target, y.shape())));
  require_close(
      to_doubles(grad(weight.tensor)),
      {0.33114625520712149,  -0.029385783837314845, 0.39004066173662155,  -0.1029116628580371,
       0.52610516664799711,  -0.069390304240087616, -0.10562776642683677, -0.010495897710587593,
       0.38004976820716757,  0.097172358583261953,  0.39464711879425918,  -0.030784781906671447,
       -0.97336143723089075, -0.092306575054231427, 0.015095530387399053, -0.07770922446713982,
       -0.97602294575308135, -0.056949457994053036, -0.69351405269378674, 0.020848483423826489,
       0.026492246367035802, 0.45559566395242423,   -0.17481333924214051, 0.73810455701171884});
}

TEST_CASE("layers with spectral norm are named and start as in PyTorch", "[spectral]") {
  Sequential model;
  model.add<Conv2d>(3, 4, 3, Conv2dShape{}, InitScheme::kaiming, Bias::none, WeightNorm::spectral);
  model.add<Linear>(6, 5, Activation::none, InitScheme::kaiming, WeightNorm::spectral);
  REQUIRE(model.describe().find("linear 6 -> 5, spectral norm") != std::string::npos);
  const Parameters parameters = place(model, DType::f32, test_device(), 1);
  std::vector<std::string> names;
  for (const auto* entries : {&parameters.entries(), &parameters.buffer_entries()})
    for (const Parameters::Entry& e : *entries) names.push_back(e.name);
  REQUIRE(names == std::vector<std::string>{"0.weight_orig", "1.weight_orig", "1.bias",
                                            "0.weight_u", "0.weight_v", "1.weight_u",
                                            "1.weight_v"});
  REQUIRE(entry(parameters.buffer_entries(), "0.weight_v").tensor.shape() == Shape{27});
  for (const Parameters::Entry& e : parameters.buffer_entries())
    REQUIRE(norm_of(to_doubles(e.tensor)) == Approx(1).epsilon(1e-6));
  // The two layers start from different numbers, and so does a network of another seed.
  Sequential other;
  other.add<Conv2d>(3, 4, 3, Conv2dShape{}, InitScheme::kaiming, Bias::none, WeightNorm::spectral);
  const Parameters second = place(other, DType::f32, test_device(), 2);
  REQUIRE(to_doubles(second.buffer_entries()[0].tensor) !=
          to_doubles(parameters.buffer_entries()[0].tensor));
  // The iterations have come close to the largest singular value.
  const Values w = to_doubles(entry(parameters.entries(), "1.weight_orig").tensor);
  const auto sigma = [&] {
    const Values u = to_doubles(entry(parameters.buffer_entries(), "1.weight_u").tensor);
    const Values v = to_doubles(entry(parameters.buffer_entries(), "1.weight_v").tensor);
    double sum = 0;
    for (size_t i = 0; i < w.size(); ++i) sum += u[i / 6] * w[i] * v[i % 6];
    return sum;
  };
  const double at_first = sigma();
  for (int i = 0; i < 100; ++i) model.begin_window();
  REQUIRE(at_first == Approx(sigma()).epsilon(0.02));
}

TEST_CASE("a forward with spectral norm changes nothing that lasts", "[spectral]") {
  const auto conv = spectral_conv(2, 3, 3);
  const Parameters parameters = place(*conv, DType::f32, test_device(), 1);
  const Values before = to_doubles(parameters.buffers());
  const Tensor x = random_tensor({2, 2, 5, 5}, 3, DType::f32);
  const Values first = to_doubles((*conv)(x)), second = to_doubles((*conv)(x));
  REQUIRE(first == second);
  REQUIRE(to_doubles((*conv)(x, Pass::eval())) == first);
  REQUIRE(to_doubles(parameters.buffers()) == before);
  conv->begin_window();
  REQUIRE(to_doubles(parameters.buffers()) != before);
}

TEST_CASE("micro-batches of a layer with spectral norm add up to their batch", "[spectral]") {
  constexpr int64_t N = 6;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    INFO(name(dtype));
    const Tensor x = random_tensor({N, 2, 5, 5}, 3, dtype);
    const Tensor target = random_tensor({N, 3, 3, 3}, 4, dtype);
    std::vector<Values> gradients;
    for (const int64_t n : {N, int64_t{4}}) {
      const auto conv = spectral_conv(2, 3, 3);
      const Parameters parameters = place(*conv, dtype, test_device(), 1);
      conv->begin_window();
      for (int64_t begin = 0; begin < N; begin += n) {
        const int64_t end = std::min(N, begin + n);
        backward(mse_loss((*conv)(x.slice(begin, end)), target.slice(begin, end)),
                 double(end - begin) / double(N));
      }
      gradients.push_back(to_doubles(parameters.gradients()));
    }
    double largest = 0;
    for (const double g : gradients[0]) largest = std::max(largest, std::abs(g));
    // The gradients are sums over 54 pixels, and the sums over 18 taps scale them. In 16 bits, each
    // micro-batch's share in dy is rounded, too.
    const double unit = dtype == DType::f64   ? 0x1p-53
                        : dtype == DType::f32 ? 0x1p-24
                        : dtype == DType::f16 ? 0x1p-11
                                              : 0x1p-8;
    const double steps = is_16_bit_dtype(dtype) ? 4 : 100;
    REQUIRE(largest > 0.01);
    REQUIRE(largest_difference(gradients[0], gradients[1]) <= steps * unit * largest);
  }
}

TEST_CASE("the gradient of a spectrally normalised weight is not rounded to 16 bits",
          "[spectral]") {
  constexpr int64_t I = 6, O = 5;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Linear linear(I, O, Activation::none, InitScheme::kaiming, WeightNorm::spectral);
    const Parameters parameters = place(linear, dtype, test_device(), 1);
    const Parameters::Entry& weight = entry(parameters.entries(), "weight_orig");
    const auto& buffers = parameters.buffer_entries();
    const Values w = to_doubles(weight.tensor), u = to_doubles(entry(buffers, "weight_u").tensor),
                 v = to_doubles(entry(buffers, "weight_v").tensor);
    // Products and sums of small whole numbers are exact. The gradient of the normalized weight is
    // the sum of x over n.
    Values x;
    for (int64_t i = 0; i < 3 * I; ++i) x.push_back(double(i * 5 % 7 - 3));
    const Tensor y = linear(from(x, {3, I}, dtype), {});
    REQUIRE(y.dtype() == dtype);
    backward_of_sum(y);
    double sigma = 0, s = 0;
    const auto dy = [&](size_t k) { return x[k] + x[I + k] + x[2 * I + k]; };
    for (size_t i = 0; i < w.size(); ++i) {
      sigma += u[i / I] * w[i] * v[i % I];
      s += dy(i % I) * w[i];
    }
    s /= sigma;
    const Values gradient = to_doubles(grad(weight.tensor));
    double largest = 0;
    for (size_t i = 0; i < w.size(); ++i)
      largest = std::max({largest, std::abs(dy(i % I) / sigma), std::abs(s / sigma)});
    // sigma and s are sums of I * O terms, with a few more operations on them.
    for (size_t i = 0; i < w.size(); ++i)
      REQUIRE(std::abs(gradient[i] - (dy(i % I) - s * u[i / I] * v[i % I]) / sigma) <=
              (2 * I * O + 8) * 0x1p-24 * largest);
  }
}

TEST_CASE("a frozen layer with spectral norm passes its gradient on", "[spectral]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto conv = spectral_conv(2, 3, 3);
    const Parameters parameters = place(*conv, dtype, test_device(), 1);
    Values gradients[2];
    for (const bool frozen : {false, true}) {
      parameters.zero_grad();
      if (frozen) parameters.freeze();
      const Tensor x = require_grad(random_tensor({2, 2, 5, 5}, 3, dtype));
      backward(mse_loss((*conv)(x), random_tensor({2, 3, 3, 3}, 4, dtype)));
      gradients[frozen] = to_doubles(grad(x));
      for (const Parameters::Entry& e : parameters.entries()) REQUIRE(e.claimed() == !frozen);
    }
    REQUIRE(gradients[0] == gradients[1]);
  }
}

TEST_CASE("a window that is taken back takes spectral norm's iteration back", "[spectral]") {
  const auto conv = spectral_conv(1, 2, 2);
  Parameters parameters = place(*conv, DType::f32, test_device(), 1);
  const auto optimizer = adam(parameters);
  Window window(*optimizer, ScheduleOptions{}, {.effective_batch_size = 2});
  const Values before = to_doubles(parameters.buffers());
  conv->begin_window();
  const Values moved = to_doubles(parameters.buffers());
  REQUIRE(moved != before);
  const Tensor x = random_tensor({2, 1, 3, 3}, 3, DType::f32);
  window.backward(mse_loss((*conv)(x), random_tensor({2, 2, 2, 2}, 4, DType::f32)), 2);
  window.abandon();
  REQUIRE(to_doubles(parameters.buffers()) == before);

  const Tensor broken = Tensor::full({2, 2, 2, 2}, std::nan(""), DType::f32, test_device());
  conv->begin_window();
  window.backward(mse_loss((*conv)(x), broken), 2);
  REQUIRE(window.step().skipped);
  REQUIRE(to_doubles(parameters.buffers()) == before);

  conv->begin_window();
  window.backward(mse_loss((*conv)(x), random_tensor({2, 2, 2, 2}, 4, DType::f32)), 2);
  REQUIRE(!window.step().skipped);
  REQUIRE(to_doubles(parameters.buffers()) == moved);
}

}  // namespace accrue::test
