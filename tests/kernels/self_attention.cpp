#include "kernels/self_attention.h"

#include <array>
#include <cmath>

#include "core/autograd.h"
#include "core/ledger.h"
#include "core/random.h"
#include "kernels/detail/vector_exp.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"
#include "tests/support/wanted_gradients.h"

namespace accrue::test {
namespace {

struct Sizes {
  size_t N, D, C, H, W;
  size_t P() const { return H * W; }
  Shape scored() const { return shape_of(D); }
  Shape valued() const { return shape_of(C); }

 private:
  Shape shape_of(size_t channels) const {
    return {int64_t(N), int64_t(channels), int64_t(H), int64_t(W)};
  }
};

// a [N, P, P] by the plain formula.
Values probabilities(const Sizes& s, const Values& q, const Values& k) {
  const size_t P = s.P();
  Values a(s.N * P * P);
  for (size_t n = 0; n < s.N; ++n)
    for (size_t i = 0; i < P; ++i) {
      double* row = a.data() + (n * P + i) * P;
      for (size_t j = 0; j < P; ++j)
        for (size_t d = 0; d < s.D; ++d)
          row[j] += q[(n * s.D + d) * P + i] * k[(n * s.D + d) * P + j] / std::sqrt(double(s.D));
      const double largest = *std::max_element(row, row + P);
      double sum = 0;
      for (size_t j = 0; j < P; ++j) sum += row[j] = std::exp(row[j] - largest);
      for (size_t j = 0; j < P; ++j) row[j] /= sum;
    }
  return a;
}

Values plain_attention(const Sizes& s, const Values& q, const Values& k, const Values& v) {
  const size_t P = s.P();
  const Values a = probabilities(s, q, k);
  Values y(v.size());
  for (size_t n = 0; n < s.N; ++n)
    for (size_t c = 0; c < s.C; ++c)
      for (size_t i = 0; i < P; ++i)
        for (size_t j = 0; j < P; ++j)
          y[(n * s.C + c) * P + i] += a[(n * P + i) * P + j] * v[(n * s.C + c) * P + j];
  return y;
}

// dq, dk, dv.
std::array<Values, 3> plain_gradients(const Sizes& s, const Values& q, const Values& k,
                                      const Values& v, const Values& dy) {
  const size_t P = s.P();
  const Values a = probabilities(s, q, k);
  Values dq(q.size()), dk(k.size()), dv(v.size()), da(P);
  for (size_t n = 0; n < s.N; ++n)
    for (size_t i = 0; i < P; ++i) {
      const double* row = a.data() + (n * P + i) * P;
      double mean = 0;
      for (size_t j = 0; j < P; ++j) {
        da[j] = 0;
        for (size_t c = 0; c < s.C; ++c) {
          const size_t at = (n * s.C + c) * P;
          da[j] += dy[at + i] * v[at + j];
          dv[at + j] += row[j] * dy[at + i];
        }
        mean += row[j] * da[j];
      }
      for (size_t j = 0; j < P; ++j)
        for (size_t d = 0; d < s.D; ++d) {
          const double ds = row[j] * (da[j] - mean) / std::sqrt(double(s.D));
          const size_t at = (n * s.D + d) * P;
          dq[at + i] += ds * k[at + j];
          dk[at + j] += ds * q[at + i];
        }
    }
  return {dq, dk, dv};
}

// A score is a sum of D products, an exponential takes a few operations, and the softmax and y are
// sums over P. Backward has sums of C products, and sums over P again.
double depth_of(const Sizes& s) { return double(s.D + s.C + 3 * s.P() + 8); }

Op attention_op(const Sizes& s) {
  return {.name = fmt::format("self_attention of q {}, v {}", s.scored(), s.valued()),
          .inputs = {s.scored(), s.scored(), s.valued()},
          .run = [](const auto& in) { return self_attention(in[0], in[1], in[2]); },
          .reference = [=](const auto& in) { return plain_attention(s, in[0], in[1], in[2]); },
          .depth = depth_of(s)};
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

}  // namespace

TEST_CASE("self_attention", "[ops]") {
  check_op(attention_op({2, 2, 3, 2, 3}));
  check_op(attention_op({1, 3, 2, 1, 1}));
  // More positions than a tile has on cuda.
  check_op(attention_op({1, 1, 2, 5, 7}));
}

TEST_CASE("self_attention of one tensor", "[ops]") {
  const Sizes s{2, 2, 2, 2, 3};
  check_op({.name = "self_attention of x, x, x",
            .inputs = {s.scored()},
            .run = [](const auto& in) { return self_attention(in[0], in[0], in[0]); },
            .reference = [=](const auto& in) { return plain_attention(s, in[0], in[0], in[0]); },
            .depth = depth_of(s),
            // Each gradient is the sum of three.
            .roundings = 3});
}

// Several blocks of rows on the cpu, the last one smaller, and many tiles on cuda. q and k have
// more channels than a tile has rows, and v has more than a block takes on cuda.
TEST_CASE("self_attention of many positions is the plain formula", "[ops]") {
  for (const Sizes& s : {Sizes{1, 3, 5, 24, 25}, Sizes{2, 35, 70, 6, 6}})
    for (const DType dtype : {DType::f64, DType::f32}) {
      INFO(to_string(s.scored()) << ", " << name(dtype));
      const Values q = random_values(s.scored(), 1), k = random_values(s.scored(), 2),
                   v = random_values(s.valued(), 3);
      const std::array leaves{require_grad(tensor_with(q, s.scored(), dtype)),
                              require_grad(tensor_with(k, s.scored(), dtype)),
                              require_grad(tensor_with(v, s.valued(), dtype))};
      const Tensor y = self_attention(leaves[0], leaves[1], leaves[2]);
      const Values expected = plain_attention(s, q, k, v);
      const double unit = depth_of(s) * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
      REQUIRE(largest_difference(to_doubles(y), expected) <= unit * largest_of(expected));
      const Values dy = random_values(s.valued(), 4);
      backward_from(y, dy);
      const auto gradients = plain_gradients(s, q, k, v, dy);
      // Sums of terms below 1 that cancel in part.
      for (size_t i = 0; i < 3; ++i)
        REQUIRE(largest_difference(to_doubles(grad(leaves[i])), gradients[i]) <=
                unit * std::max(1.0, largest_of(gradients[i])));
    }
}

TEST_CASE("self_attention of large scores does not overflow", "[ops]") {
  const Sizes s{1, 1, 2, 3, 4};
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Values q = random_values(s.scored(), 1, 256), k = random_values(s.scored(), 2, 256),
                 v = random_values(s.valued(), 3);
    const Tensor q_leaf = require_grad(tensor_with(q, s.scored(), dtype)),
                 k_leaf = require_grad(tensor_with(k, s.scored(), dtype)),
                 v_leaf = require_grad(tensor_with(v, s.valued(), dtype));
    const Tensor y = self_attention(q_leaf, k_leaf, v_leaf);
    const Values expected = plain_attention(s, q, k, v);
    // Scores, and L, reach 2^16, and their rounding is at most u times that. It becomes a relative
    // error of a.
    const double relative = 8 * 0x1p16 * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
    REQUIRE(largest_difference(to_doubles(y), expected) <= relative);
    backward_of_sum(y);
    const auto gradients = plain_gradients(s, q, k, v, Values(v.size(), 1));
    REQUIRE(largest_difference(to_doubles(grad(v_leaf)), gradients[2]) <= 12 * relative);
    for (const Tensor& leaf : {q_leaf, k_leaf})
      for (const double g : to_doubles(grad(leaf))) REQUIRE(std::isfinite(g));
  }
}

TEST_CASE("self_attention does not depend on the threads", "[ops]") {
  const Sizes s{2, 4, 12, 24, 25};
  Values results[3];
  for (const int count : {1, 2, 3}) {
    const ThreadScope threads(count);
    set_thread_order(count - 1);
    Values& all = results[count - 1];
    std::vector<Tensor> leaves;
    for (const Shape& shape : {s.scored(), s.scored(), s.valued()})
      leaves.push_back(
          require_grad(tensor_with(random_values(shape, leaves.size()), shape, DType::f32)));
    const Tensor y = self_attention(leaves[0], leaves[1], leaves[2]);
    all = to_doubles(y);
    backward_of_sum(y);
    for (const Tensor& leaf : leaves)
      for (const double g : to_doubles(grad(leaf))) all.push_back(g);
  }
  set_thread_order(0);
  REQUIRE(results[0] == results[1]);
  REQUIRE(results[0] == results[2]);
}

TEST_CASE("self_attention computes the gradients that are wanted", "[ops]") {
  const Sizes s{2, 2, 3, 2, 3};
  check_wanted_gradients(
      {s.scored(), s.scored(), s.valued()},
      [](const Tensor& q, const Tensor& k, const Tensor& v) { return self_attention(q, k, v); });
}

TEST_CASE("self_attention keeps no matrix of positions", "[ops]") {
  constexpr int64_t D = 32, C = 256, P = 32 * 32, element = 4;
  for (const Device device : {Device::meta, Device::meta_cuda}) {
    const auto make = [&](int64_t channels) {
      return require_grad(Tensor::empty({1, channels, 32, 32}, DType::f32, device));
    };
    const Tensor q = make(D), k = make(D), v = make(C);
    const auto bytes = [&] { return int64_t(ledger(device).current().total()); };
    ledger(device).reset_peak();
    const int64_t before = bytes();
    const Tensor y = self_attention(q, k, v);
    // Memory besides y. The plain formula keeps at least a.
    REQUIRE(10 * (bytes() - before - C * P * element) <= P * P * element);
    backward_of_sum(y);
    // Memory besides y, dy, dq, dk and dv. The plain formula has a and ds at once.
    const int64_t most = int64_t(ledger(device).peak().total()) - before;
    REQUIRE(most - (3 * C + 2 * D) * P * element <= 2 * P * P * element / 4);
  }
}

TEST_CASE("vector_exp is within two units of the last place", "[ops]") {
  for (float x = -87; x <= 1; x += 0.00137f) {
    const double exact = std::exp(double(x));
    REQUIRE(std::abs(vector_exp(x) - exact) <= 2 * 0x1p-23 * exact);
  }
  REQUIRE(vector_exp(0.0f) == 1);
  REQUIRE(vector_exp(-88.0f) == 0);
  REQUIRE(vector_exp(-1e30f) == 0);
  REQUIRE(vector_exp(-std::numeric_limits<float>::infinity()) == 0);
  REQUIRE(std::isnan(vector_exp(std::nanf(""))));
}

TEST_CASE("self_attention refuses shapes that do not agree", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, test_device());
  };
  const Tensor q = make({2, 3, 4, 5});
  REQUIRE_ERROR(self_attention(q, make({2, 2, 4, 5}), make({2, 6, 4, 5})),
                "q [2, 3, 4, 5], k [2, 2, 4, 5] and v [2, 6, 4, 5]");
  REQUIRE_ERROR(self_attention(q, q, make({2, 6, 5, 4})), "v [2, 6, 5, 4]");
  REQUIRE_ERROR(self_attention(q, q, make({1, 6, 4, 5})), "v [1, 6, 4, 5]");
  REQUIRE_ERROR(self_attention(q, q, make({2, 6, 4, 5}, DType::f64)), "f64");
}

}  // namespace accrue::test
