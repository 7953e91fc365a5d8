// The CPU's matrix products compared with Eigen's in double.

#include "kernels/cpu/gemm.h"

#include <Eigen/Core>
#include <limits>

#include "core/random.h"
#include "kernels/cpu/indirect_gemm.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Small integers: their products and sums are exact in every dtype, as 20 * 9 is below 2^8.
Matrix integers(RandomStream& random, int64_t rows, int64_t columns, int64_t K) {
  const int64_t largest = K <= 20 ? 3 : 1;
  Matrix m(rows, columns);
  for (double& v : m.reshaped())
    v = static_cast<double>(random.below(static_cast<uint64_t>(2 * largest + 1))) -
        static_cast<double>(largest);
  return m;
}

template <class T>
std::vector<T> elements(const Matrix& m) {
  std::vector<T> values(static_cast<size_t>(m.size()));
  std::transform(m.data(), m.data() + m.size(), values.begin(),
                 [](double v) { return T(static_cast<Wide<T>>(v)); });
  return values;
}

template <class C, class T>
void check_product(RandomStream& random, cpu::Gemm<T> p, bool bias) {
  const Matrix a = integers(random, p.M, p.K, p.K), b = integers(random, p.K, p.N, p.K);
  const Matrix row = integers(random, 1, p.N, p.K), before = integers(random, p.M, p.N, p.K);
  Matrix expected = a * b;
  if (bias) expected.rowwise() += row.row(0);
  if (p.activation == Activation::relu) expected = expected.cwiseMax(0);
  if (p.beta != 0) expected += p.beta * before;
  const auto a_values = elements<T>(p.a_op == Transpose::yes ? Matrix(a.transpose()) : a);
  const auto b_values = elements<T>(p.b_op == Transpose::yes ? Matrix(b.transpose()) : b);
  const auto bias_values = elements<T>(row);
  if (bias) p.bias = bias_values.data();
  auto c = elements<C>(before);
  if (p.beta == 0)  // must not be read
    std::ranges::fill(c, C(std::numeric_limits<Wide<C>>::quiet_NaN()));
  cpu::gemm(c.data(), a_values.data(), b_values.data(), p);
  CAPTURE(p.M, p.N, p.K, p.a_op == Transpose::yes, p.b_op == Transpose::yes, p.beta, bias,
          p.activation == Activation::relu, sizeof(C), sizeof(T));
  REQUIRE(c == elements<C>(expected));
}

}  // namespace

TEST_CASE("products of integers are exact, whatever their shapes", "[ops]") {
  RandomStream random(3);
  const auto draw = [&](std::initializer_list<uint64_t> limits) {
    const uint64_t limit = limits.begin()[random.below(limits.size())];
    return static_cast<int64_t>(1 + random.below(limit));
  };
  for (int i = 0; i < 300; ++i) {
    const int64_t M = draw({4, 20, 200}), N = draw({20, 100, 600}), K = draw({4, 20, 700});
    for (const Transpose a_op : {Transpose::no, Transpose::yes})
      for (const Transpose b_op : {Transpose::no, Transpose::yes}) {
        const auto beta = static_cast<float>(random.below(2));
        const bool bias = random.below(2) == 0, relu = beta == 0 && random.below(2) == 0;
        const auto product = [&]<class T>(T) {
          return cpu::Gemm<T>{.M = M,
                              .N = N,
                              .K = K,
                              .a_op = a_op,
                              .b_op = b_op,
                              .beta = beta,
                              .activation = relu ? Activation::relu : Activation::none};
        };
        check_product<float>(random, product(float()), bias);
        if (i % 4 == 0) check_product<double>(random, product(double()), bias);
        // 16 bits hold the sum of 20 terms of at most 9, a bias and a target.
        if (i % 4 == 1) check_product<float>(random, product(Half()), bias);
        if (i % 4 == 2) check_product<float>(random, product(BFloat16()), bias);
        if (i % 4 == 3 && K <= 20) check_product<Half>(random, product(Half()), bias);
        if (i % 4 == 3 && K <= 20) check_product<BFloat16>(random, product(BFloat16()), bias);
      }
  }
}

// The sums are so long that all chunks add a part of their terms before any chunk continues. Rows
// of B share sets of a cache, or come from memory. There are several groups of packed panels.
TEST_CASE("products of integers are exact where operands are large", "[ops]") {
  struct Size {
    int64_t M, N, K;
  };
  RandomStream random(5);
  for (const auto& [M, N, K] : {Size{9, 70, 3071},
                                {200, 33, 3072},
                                {200, 33, 4700},
                                {150, 1024, 70},
                                {30, 900, 80},
                                {70, 24, 16400}})
    for (const Transpose a_op : {Transpose::no, Transpose::yes})
      for (const Transpose b_op : {Transpose::no, Transpose::yes})
        for (const float beta : {0.f, 1.f}) {
          const cpu::Gemm<float> product{
              .M = M, .N = N, .K = K, .a_op = a_op, .b_op = b_op, .beta = beta};
          check_product<float>(random, product, false);
        }
}

TEST_CASE("a product over nothing is the bias, and beta times the target", "[ops]") {
  std::vector<float> c{1, 2, 3, 4, 5, 6};
  const std::vector<float> bias{10, 20, 30};
  cpu::gemm(c.data(), c.data(), c.data(),
            cpu::Gemm<float>{.M = 2,
                             .N = 3,
                             .K = 0,
                             .a_op = Transpose::no,
                             .b_op = Transpose::no,
                             .beta = 1,
                             .bias = bias.data()});
  REQUIRE(c == std::vector<float>{11, 22, 33, 14, 25, 36});
}

// The processor's instruction and its replacement both add the second product of each pair first.
TEST_CASE("pairs of bfloat16 are added one after the other, in float32", "[ops]") {
#ifdef __AVX512F__
  if (!cpu::multiplies_bfloat16_pairs()) return;
#endif
  constexpr int64_t M = 11, N = 2 * cpu::lanes<float>, K = 5;
  RandomStream random(11);
  std::vector<BFloat16> a(2 * K * M + 1), b(2 * K * N);
  for (auto* values : {&a, &b})
    for (BFloat16& v : *values) v = BFloat16(random.uniform(-2, 2));
  std::vector<cpu::BFloat16Pair> pairs(K * N);
  std::vector<float> c(M * N, 1), expected = c;
  std::vector<int32_t> a_row(M), a_col(K), b_row(K);
  for (int64_t k = 0; k < K; ++k) {
    cpu::interleave(&pairs[size_t(k * N)], &b[size_t(2 * k * N)], &b[size_t((2 * k + 1) * N)], N);
    a_col[size_t(k)] = int32_t(2 * k + 1);  // the columns need not be aligned
    b_row[size_t(k)] = int32_t(k * N);
  }
  for (int64_t m = 0; m < M; ++m) {
    a_row[size_t(m)] = int32_t(2 * K * m);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k)
        for (const int64_t i : {1, 0})
          expected[size_t(m * N + n)] +=
              a[size_t(2 * (K * m + k) + 1 + i)] * b[size_t((2 * k + i) * N + n)];
  }
  const cpu::IndirectGemm product{M, N, K, a_row.data(), a_col.data(), b_row.data()};
  cpu::indirect_gemm<cpu::BFloat16Pair>(c.data(), a.data(), pairs.data(), product,
                                        cpu::Result::add);
  REQUIRE(c == expected);
}

}  // namespace accrue::test
