// Sums in bfloat16: their rounding, their kernel, and their norm.

#include "accumulate/accumulate_bf16.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "accumulate/squared_norm.h"
#include "accumulate/stochastic_rounding.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test::sums_in_bf16 {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// The largest relative error of one rounding: the distance between two neighbors in bfloat16 is at
// most 2^-7 of their size. On average over the random bits, the squared error is at most a quarter
// of the squared distance.
constexpr double relative_distance = 0x1p-7;
// The mean squared error, relative to x^2. It assumes evenly spread fractions f between two
// neighbors, E f (1 - f) = 1/6, and numbers x in [1, 2) with an evenly spread logarithm, E 1/x^2 =
// 3 / (8 ln 2).
const double typical_variance = relative_distance * relative_distance / 16 / std::log(2.0);

Tensor window_at(int64_t steps, double weight, Device device = test_device()) {
  const StepOutcome outcome{.weight = weight, .steps = steps};
  std::vector<uint8_t> bytes(sizeof(outcome));
  std::memcpy(bytes.data(), &outcome, sizeof(outcome));
  return Tensor::from(bytes, {sizeof(outcome)}, device);
}

struct Key {
  uint64_t seed = 1;
  int64_t first = 0, steps = 3;
  double weight = 16;
};

Tensor empty_sum(int64_t n, Device device = test_device()) {
  return Tensor::full({n}, NAN, DType::bf16, device);
}
void accumulate(const Tensor& sum, float beta, const Tensor& g, const Key& key = {}) {
  const Tensor window = window_at(key.steps, key.weight, sum.device());
  accumulate_bf16({sum.view(), beta}, g.view(), {key.seed, key.first, window.view()});
}
std::vector<double> rounded(const Tensor& g, const Key& key = {}) {
  const Tensor sum = empty_sum(g.numel(), g.device());
  accumulate(sum, 0, g, key);
  return to_doubles(sum);
}

Tensor random_gradient(int64_t n, uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> g;
  for (int64_t i = 0; i < n; ++i) g.push_back(random.normal());
  return Tensor::from(g, {n}, test_device());
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

}  // namespace

TEST_CASE("the mean of a number's stochastic roundings is the number, exactly", "[strategies]") {
  constexpr uint32_t all = 0x10000;
  // Ordinary numbers, zeros, the largest denormal number, and numbers just below the largest finite
  // one.
  for (const uint32_t upper : {0x3f80u, 0x4049u, 0xbf81u, 0u, 0x8000u, 0x7fu, 0x80u, 0x7f7eu})
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      double sum = 0;
      for (uint32_t random = 0; random < all; ++random)
        sum += double(round_stochastically(x, random | 0xabcd0000));
      INFO(x);
      REQUIRE(sum == all * double(x));
    }
}

TEST_CASE("stochastic rounding keeps what bfloat16 has, and makes nothing infinite by chance",
          "[strategies]") {
  for (const uint32_t random : {0u, 0x5555u, 0xffffu}) {
    size_t changed = 0;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto x = BFloat16::from_bits(static_cast<uint16_t>(bits));
      const BFloat16 y = round_stochastically(x, random);
      changed += std::isnan(float(x)) ? !std::isnan(float(y)) : x.bits != y.bits;
    }
    REQUIRE(changed == 0);
    // Above the largest finite number it rounds to nearest, whatever the random bits.
    for (const uint32_t bits : {0x7f7f0001u, 0x7f7f7fffu, 0x7f7f8000u, 0x7f7fffffu, 0x7f800001u,
                                0x7fffffffu, 0xff7f7fffu, 0xff7f8000u, 0xff800001u}) {
      const auto x = std::bit_cast<float>(bits);
      REQUIRE(round_stochastically(x, random).bits == BFloat16(x).bits);
    }
    REQUIRE(float(round_stochastically(std::bit_cast<float>(0x7f7f7fffu), random)) < infinity);
  }
}

TEST_CASE("a sum in bfloat16 is rounded without bias, by bits of each micro-batch's own",
          "[strategies]") {
  const int64_t n = on_runner() ? 4096 : 65536;
  constexpr double up = 0.3;  // the probability of the upper neighbour
  const float x = 1 + float(up * relative_distance);
  const Tensor g = Tensor::full({n}, x, DType::f32, test_device());
  const std::vector<double> first = rounded(g);
  REQUIRE(rounded(g) == first);
  // Six standard deviations of the mean, and of the share of elements whose two roundings differ.
  const double of_mean = 6 * std::sqrt(up * (1 - up) / double(n)), differ = 2 * up * (1 - up),
               of_share = 6 * std::sqrt(differ * (1 - differ) / double(n));
  const auto share = [&](const std::vector<double>& other, size_t shift) {
    double different = 0;
    for (size_t i = shift; i < size_t(n); ++i) different += first[i] != other[i - shift];
    return different / double(n);
  };
  REQUIRE(std::abs(mean(first) - double(x)) <= of_mean * relative_distance);
  for (const size_t shift : {1, 2, 4, 8})
    REQUIRE(std::abs(share(first, shift) - differ) <= of_share + double(shift) / double(n));
  for (const Key& other : {Key{.seed = 2}, Key{.steps = 4}, Key{.weight = 32}, Key{.first = n}}) {
    const std::vector<double> second = rounded(g, other);
    REQUIRE(std::abs(mean(second) - double(x)) <= of_mean * relative_distance);
    REQUIRE(std::abs(share(second, 0) - differ) <= of_share);
  }
  // An element gets the same random bits wherever the slice begins.
  const std::vector<double> rest = rounded(g.slice(64, n), {.first = 64});
  REQUIRE(std::equal(rest.begin(), rest.end(), first.begin() + 64));
}

TEST_CASE("sums in bfloat16 equal a reference's, with the same bits on every device",
          "[strategies]") {
  constexpr int64_t n = 1005, K = 16;  // the last vector is not whole
  const Tensor sum = empty_sum(n), on_cpu = empty_sum(n, Device::cpu);
  std::vector<double> reference(n), bound(n), before(n);
  double variance = 0, typical = 0;
  for (int64_t k = 0; k < K; ++k) {
    const Tensor g = random_gradient(n, uint64_t(k));
    const Key key{.weight = double(k + 1)};
    accumulate(sum, k == 0 ? 0 : 1, g, key);
    accumulate(on_cpu, k == 0 ? 0 : 1, g.to(Device::cpu), key);
    REQUIRE(to_doubles(sum) == to_doubles(on_cpu));
    const std::vector<double> now = to_doubles(sum), added = to_doubles(g);
    for (size_t i = 0; i < n; ++i) {
      reference[i] += added[i];
      // The size of the number that is rounded, up to float32's own rounding.
      const double x = std::abs(before[i] + added[i]) * (1 + 0x1p-23);
      bound[i] += x * (relative_distance + 0x1p-23);
      variance += x * x * relative_distance * relative_distance / 4;
      typical += x * x * typical_variance;
    }
    before = now;
  }
  double error = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) {
    REQUIRE(std::abs(before[i] - reference[i]) <= bound[i]);
    error += before[i] - reference[i];
    squares += (before[i] - reference[i]) * (before[i] - reference[i]);
  }
  // The error of each rounding has mean 0, whatever came before. So variances add up, and six
  // standard deviations are allowed.
  REQUIRE(std::abs(error) <= 6 * std::sqrt(variance));
  // Six standard deviations of a mean of n squares; the standard deviation of each is about 1.5
  // times its mean.
  REQUIRE(squares == Approx(typical).epsilon(9 / std::sqrt(double(n))));
}

// With rounding to nearest, a sum of ones would stay at 256.
TEST_CASE("a sum in bfloat16 of equal gradients grows past 256", "[strategies]") {
  constexpr int64_t n = 64, K = 1024;
  const Tensor sum = empty_sum(n), one = Tensor::full({n}, 1, DType::f32, test_device());
  double variance = 0;
  for (int64_t k = 1; k <= K; ++k) {
    accumulate(sum, k == 1 ? 0 : 1, one, {.weight = double(k)});
    variance += double(k * k) * relative_distance * relative_distance / 4;
  }
  REQUIRE(std::abs(mean(to_doubles(sum)) - double(K)) <= 6 * std::sqrt(variance / n));
}

TEST_CASE("a sum in bfloat16 keeps what is not finite where it is", "[strategies]") {
  Tensor g = random_gradient(20, 1);
  g.slice(3, 4).fill(NAN);
  g.slice(18, 19).fill(-std::numeric_limits<double>::infinity());
  const Tensor sum = empty_sum(20);
  for (const float beta : {0.0f, 1.0f}) {
    accumulate(sum, beta, g);
    const std::vector<double> values = to_doubles(sum);
    for (size_t i = 0; i < 20; ++i) REQUIRE(std::isfinite(values[i]) == (i != 3 && i != 18));
    REQUIRE(values[18] == -std::numeric_limits<double>::infinity());
  }
  REQUIRE_ERROR(accumulate(g, 0, g), "expected bf16 and f32 of one shape");
  REQUIRE_ERROR(accumulate(sum, 0, g.slice(0, 19)), "expected bf16 and f32 of one shape");
  REQUIRE_ERROR(accumulate(sum, 0, g, {.first = 4}), "expected a multiple of 8");
}

TEST_CASE("the norm of a sum in bfloat16 is that of its elements", "[strategies]") {
  const Tensor partials = Tensor::full({norm_partials}, NAN, DType::f64, test_device());
  for (const double scale : {1.0, 1e38}) {  // the squares of 1e38 overflow in float32
    const int64_t n = 3001;
    std::vector<BFloat16> values;
    double expected = 0;
    for (const double g : to_doubles(random_gradient(n, 7))) {
      values.push_back(BFloat16(float(g / 4 * scale)));
      expected += double(values.back()) * double(values.back());
    }
    squared_norm({partials.view(), 0}, Tensor::from(values, {n}, test_device()).view());
    double squares = 0;
    for (const double part : to_doubles(partials)) squares += part;
    // At most n additions of nonnegative numbers in float32.
    REQUIRE(squares == Approx(expected).epsilon(double(n) * 0x1p-24));
  }
}

}  // namespace accrue::test::sums_in_bf16
