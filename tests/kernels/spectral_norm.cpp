#include "kernels/spectral_norm.h"

#include <cmath>

#include "core/autograd.h"
#include "core/random.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

Values random_numbers(int64_t n, uint64_t seed, float low = -1) {
  RandomStream random(seed);
  Values values(static_cast<size_t>(n));
  for (double& v : values) v = random.uniform(low, 1);
  return values;
}

Tensor make_tensor(const Values& values, const Shape& shape, DType dtype,
                   Device device = test_device()) {
  if (dtype == DType::f64) return Tensor::from(values, shape, device);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, device);
}

// Positive numbers: sigma loses no digits by cancellation.
Values vector_for(int64_t n, uint64_t seed) { return random_numbers(n, seed, 0.25f); }

double sigma_of(const Values& w, const Values& u, const Values& v) {
  double sigma = 0;
  for (size_t i = 0; i < w.size(); ++i) sigma += u[i / v.size()] * w[i] * v[i % v.size()];
  return sigma;
}

Op spectral_op(const Shape& shape) {
  const int64_t O = shape[0], K = shape.numel() / O;
  const Values u = vector_for(O, 1), v = vector_for(K, 2);
  return {.name = fmt::format("spectral_normalize of {}", shape),
          .inputs = {shape},
          .run =
              [=](const auto& in) {
                const auto make = [&](const Values& values) {
                  return make_tensor(values, {int64_t(values.size())}, in[0].dtype(),
                                     in[0].device());
                };
                return spectral_normalize(in[0], make(u), make(v));
              },
          .reference =
              [=](const auto& in) {
                Values y = in[0];
                for (double& value : y) value /= sigma_of(in[0], u, v);
                return y;
              },
          // sigma is a sum of all elements.
          .depth = static_cast<double>(shape.numel()) + 4,
          .low = 0.1,
          .parameters = {0}};
}

double norm_of(const Values& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

// power_iteration() in double.
void iterate(Values& u, Values& v, const Values& w) {
  std::ranges::fill(v, 0);
  for (size_t i = 0; i < w.size(); ++i) v[i % v.size()] += w[i] * u[i / v.size()];
  const double v_norm = norm_of(v);
  for (double& value : v) value /= v_norm;
  std::ranges::fill(u, 0);
  for (size_t i = 0; i < w.size(); ++i) u[i / v.size()] += w[i] * v[i % v.size()];
  const double u_norm = norm_of(u);
  for (double& value : u) value /= u_norm;
}

}  // namespace

TEST_CASE("spectral_normalize", "[ops]") {
  check_op(spectral_op({3, 5}));
  check_op(spectral_op({4, 2, 3, 3}));
  check_op(spectral_op({1, 7}));
  check_op(spectral_op({5, 1, 1, 1}));
}

// There are more columns than a piece has.
TEST_CASE("spectral_normalize and power_iteration of few long rows", "[ops]") {
  const int64_t O = 2, K = 40000;
  const Values w = random_numbers(O * K, 3, 0.1f), c = random_numbers(O * K, 4);
  Values u = vector_for(O, 1), v = vector_for(K, 2);
  const Tensor u_tensor = make_tensor(u, {O}, DType::f32),
               v_tensor = make_tensor(v, {K}, DType::f32);
  const Tensor leaf = require_grad(make_tensor(w, {O, K}, DType::f32));
  const Tensor y = spectral_normalize(leaf, u_tensor, v_tensor);
  // All terms have the same sign. Sums are runs of 256 in float32, and then double, with a few more
  // operations.
  constexpr double relative = (256 + 8) * 0x1p-24;
  const double sigma = sigma_of(w, u, v);
  const Values actual = to_doubles(y);
  for (size_t i = 0; i < w.size(); i += 997)
    REQUIRE(actual[i] == Approx(w[i] / sigma).epsilon(relative));

  backward_of_sum(y);
  double s = 0;
  for (const double value : w) s += value / sigma;
  const Values gradient = to_doubles(grad(leaf));
  for (size_t i = 0; i < w.size(); i += 997) {
    const double outer = u[i / size_t(K)] * v[i % size_t(K)];
    // Each term of the difference has that relative error.
    REQUIRE(std::abs(gradient[i] - (1 - s * outer) / sigma) <=
            relative * (1 + 3 * s * outer) / sigma);
  }

  for (int i = 0; i < 2; ++i) {
    power_iteration(u_tensor, v_tensor, leaf);
    iterate(u, v, w);
  }
  const Values new_u = to_doubles(u_tensor), new_v = to_doubles(v_tensor);
  for (size_t o = 0; o < u.size(); ++o) REQUIRE(new_u[o] == Approx(u[o]).epsilon(4 * relative));
  for (size_t k = 0; k < v.size(); k += 997)
    REQUIRE(new_v[k] == Approx(v[k]).epsilon(4 * relative));
}

TEST_CASE("power_iteration finds the largest singular value", "[ops]") {
  // [[3, 0, 0], [0, 2, 0]], rotated by the angle with cosine 0.6 and sine 0.8.
  const Values w{0.6 * 3, -0.8 * 2, 0, 0.8 * 3, 0.6 * 2, 0};
  const Tensor leaf = make_tensor(w, {2, 3}, DType::f64);
  const Tensor u = make_tensor({1, 0.5}, {2}, DType::f64),
               v = make_tensor({0, 0, 0}, {3}, DType::f64);
  // Each iteration multiplies the tangent of the angle by (2/3)^2.
  for (int i = 0; i < 50; ++i) power_iteration(u, v, leaf);
  const NoGrad no_grad;
  const Values y = to_doubles(spectral_normalize(leaf, u, v));
  for (size_t i = 0; i < w.size(); ++i) REQUIRE(y[i] == Approx(w[i] / 3).margin(1e-14));
  REQUIRE(norm_of(to_doubles(u)) == Approx(1));
  REQUIRE(norm_of(to_doubles(v)) == Approx(1));
}

TEST_CASE("power_iteration divides a vector that is nearly zero by eps", "[ops]") {
  const Tensor w = make_tensor({1e-3, 0, 0, 0}, {2, 2}, DType::f64);
  const Tensor u = make_tensor({1, 0}, {2}, DType::f64), v = make_tensor({7, 7}, {2}, DType::f64);
  power_iteration(u, v, w, 0.5);
  REQUIRE(to_doubles(v) == Values{1e-3 / 0.5, 0});
  REQUIRE(to_doubles(u) == Values{1e-3 * (1e-3 / 0.5) / 0.5, 0});
}

TEST_CASE("spectral_normalize does not depend on the threads", "[ops]") {
  const int64_t O = 24, K = 20000;
  Values results[3];
  for (const int count : {1, 2, 3}) {
    const ThreadScope threads(count);
    set_thread_order(count - 1);
    const Tensor u = make_tensor(vector_for(O, 1), {O}, DType::f32);
    const Tensor v = make_tensor(vector_for(K, 2), {K}, DType::f32);
    const Tensor w = require_grad(make_tensor(random_numbers(O * K, 3, 0.1f), {O, K}, DType::f32));
    power_iteration(u, v, w);
    const Tensor y = spectral_normalize(w, u, v);
    Values& all = results[count - 1];
    all = to_doubles(y);
    backward_of_sum(y);
    for (const Tensor& part : {u, v, grad(w)})
      for (const double value : to_doubles(part)) all.push_back(value);
  }
  set_thread_order(0);
  REQUIRE(results[0] == results[1]);
  REQUIRE(results[0] == results[2]);
}

TEST_CASE("spectral_normalize refuses vectors that do not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, test_device());
  };
  REQUIRE_ERROR(spectral_normalize(make({2, 3, 2}), make({2}), make({3})),
                "w f32 [2, 3, 2], u [2] and v [3]");
  REQUIRE_ERROR(power_iteration(make({3}), make({2}), make({2, 3})), "u [3] and v [2]");
  REQUIRE_ERROR(spectral_normalize(make({2, 3}), make({2}, DType::f64), make({3})), "f64");
  REQUIRE_ERROR(
      spectral_normalize(make({2, 3}, DType::f16), make({2}, DType::f16), make({3}, DType::f16)),
      "expected w [O, ...] of float32 or float64");
}

}  // namespace accrue::test
