#include "kernels/dropout.h"

#include <cmath>
#include <numeric>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor samples(const std::vector<int32_t>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())}, test_device());
}

std::vector<int32_t> counted(int32_t size) {
  std::vector<int32_t> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// keep(n, e) / (1 - p) for rows of E elements.
Values mask(double p, const DropoutKey& key, int64_t E) {
  return to_doubles(dropout(ones({key.samples.size(0), E}), p, key));
}

// The count of n independent events of probability q is more than 5 standard deviations from its
// mean with a probability below 1e-6.
void require_binomial(int64_t count, int64_t n, double q) {
  const double mean = static_cast<double>(n) * q, deviation = std::sqrt(mean * (1 - q));
  INFO(count << " of " << n << ", expected " << mean << " +- " << 5 * deviation);
  REQUIRE(std::abs(static_cast<double>(count) - mean) <= 5 * deviation);
}

}  // namespace

TEST_CASE("dropout", "[ops]") {
  static const std::vector<int32_t> rows{11, 0, 59999};
  constexpr double p = 0.3;
  check_op(
      {.name = "dropout",
       .inputs = {{3, 2, 5}},
       .run =
           [](const auto& in) {
             return dropout(in[0], p,
                            {.seed = 7, .layer = 2, .epoch = 3, .samples = indices(rows, in[0])});
           },
       .reference =
           [](const auto& in) {
             Values y;
             for (size_t n = 0; n < rows.size(); ++n)
               for (uint64_t e = 0; e < 10; ++e) {
                 const uint64_t sample = static_cast<uint64_t>(rows[n]);
                 const auto words =
                     philox(7 ^ 0x74756f706f7264, e / 4 + (sample << 32), 2 + (uint64_t{3} << 32));
                 y.push_back(words[e % 4] >= p * 0x1p32 ? in[0][n * 10 + e] / (1 - p) : 0);
               }
             return y;
           },
       .depth = 4});
}

// Two rows of each sample.
TEST_CASE("dropout of samples of several rows", "[ops]") {
  static const std::vector<int32_t> rows{11, 0, 59999};
  constexpr double p = 0.3;
  const auto key = [](const Tensor& like) {
    return DropoutKey{.seed = 7, .layer = 2, .epoch = 3, .samples = indices(rows, like)};
  };
  const Values whole = mask(p, key(ones({1})), 10);
  check_op({.name = "dropout of rows",
            .inputs = {{6, 5}},
            .run = [=](const auto& in) { return dropout(in[0], p, key(in[0])); },
            .reference =
                [=](const auto& in) {
                  Values y;
                  for (size_t i = 0; i < 30; ++i)
                    y.push_back(whole[i] == 0 ? 0 : in[0][i] / (1 - p));
                  return y;
                },
            .depth = 4});
}

TEST_CASE("stochastic_depth", "[ops]") {
  static const std::vector<int32_t> rows{11, 0, 59999, 3};
  constexpr double p = 0.4;
  for (const Shape& shape : {Shape{4, 2, 5}, Shape{4, 70}, Shape{8, 3}, Shape{4}, Shape{4, 8}}) {
    const size_t E = static_cast<size_t>(shape.numel()) / rows.size();
    check_op({.name = fmt::format("stochastic_depth of {}", shape),
              .inputs = {shape},
              .run =
                  [](const auto& in) {
                    return stochastic_depth(
                        in[0], p,
                        {.seed = 6, .layer = 2, .epoch = 3, .samples = indices(rows, in[0])});
                  },
              .reference =
                  [=](const auto& in) {
                    Values y;
                    for (size_t i = 0; i < rows.size() * E; ++i) {
                      const uint64_t sample = static_cast<uint64_t>(rows[i / E]);
                      const auto words =
                          philox(6 ^ 0x74756f706f7264, sample << 32, 2 + (uint64_t{3} << 32));
                      y.push_back(words[0] >= p * 0x1p32 ? in[0][i] / (1 - p) : 0);
                    }
                    return y;
                  },
              .depth = 4});
  }
  // Pieces of a sample are dropped alike.
  DropoutKey key{.seed = 6, .samples = samples(counted(8))};
  const Values whole = to_doubles(stochastic_depth(ones({8, 3}), p, key));
  key.first = 6;
  REQUIRE(to_doubles(stochastic_depth(ones({8, 3}), p, key)) == whole);
  const Tensor x = ones({2, 3});
  REQUIRE(stochastic_depth(x, 0, {.samples = indices({0, 1}, x)}).view().data == x.view().data);
}

TEST_CASE("stochastic_depth keeps 1 - p of the samples", "[ops]") {
  constexpr int64_t N = 4096;
  for (const double p : {0.1, 0.5, 0.9}) {
    const Values y =
        to_doubles(stochastic_depth(ones({N}), p, {.seed = 3, .samples = samples(counted(N))}));
    require_binomial(N - std::ranges::count(y, 0.0), N, 1 - p);
  }
}

TEST_CASE("a dropout mask is the same for every piece of a row", "[ops]") {
  constexpr int64_t E = 200;
  const DropoutKey key{.seed = 1, .samples = samples({5})};
  const Values whole = mask(0.5, key, E);
  for (const int64_t first :
       {4, 64, 100, 1, 18, 63, 199}) {  // also in the middle of a call's words
    DropoutKey of_piece = key;
    of_piece.first = first;
    for (const int64_t size : {E - first, int64_t{1}}) {
      const Values piece = mask(0.5, of_piece, size);
      REQUIRE(piece == Values(whole.begin() + first, whole.begin() + first + size));
    }
  }
  DropoutKey wrong = key;
  wrong.first = -1;
  REQUIRE_ERROR(mask(0.5, wrong, 8), "begins with element -1");
}

TEST_CASE("a dropout mask is the same for every split and order of the samples", "[ops]") {
  constexpr int64_t E = 13;
  const std::vector<int32_t> order{5, 3, 900, 4, 1, 0, 77};
  const auto whole = mask(0.5, {.seed = 1, .samples = samples(order)}, E);
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{1, 1, 1, 1, 1, 1, 1}, {3, 3, 1}, {2, 5}, {7}}) {
    Values parts;
    auto row = order.begin();
    for (const size_t size : sizes) {
      const std::vector<int32_t> some(row, row + static_cast<ptrdiff_t>(size));
      const auto part = mask(0.5, {.seed = 1, .samples = samples(some)}, E);
      parts.insert(parts.end(), part.begin(), part.end());
      row += static_cast<ptrdiff_t>(size);
    }
    REQUIRE(parts == whole);
  }
  const std::vector<int32_t> reversed(order.rbegin(), order.rend());
  const auto backwards = mask(0.5, {.seed = 1, .samples = samples(reversed)}, E);
  for (size_t n = 0; n < order.size(); ++n)
    REQUIRE(std::equal(whole.begin() + static_cast<ptrdiff_t>(n * E),
                       whole.begin() + static_cast<ptrdiff_t>((n + 1) * E),
                       backwards.end() - static_cast<ptrdiff_t>((n + 1) * E)));
}

TEST_CASE("dropout keeps 1 - p of the elements, in each Philox word", "[ops]") {
  constexpr int64_t N = 64, E = 1024;
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto values = mask(p, {.seed = 3, .samples = samples(counted(N))}, E);
    std::array<int64_t, 4> kept{};
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE((values[i] == 0 || values[i] == static_cast<float>(1 / (1 - p))));
      kept[i % 4] += values[i] != 0;
    }
    for (const int64_t count : kept) require_binomial(count, N * E / 4, 1 - p);
  }
}

TEST_CASE("dropout masks of other seeds, layers, epochs and samples are independent", "[ops]") {
  constexpr int64_t N = 16, E = 256;
  const auto rows = samples(counted(N));
  const auto base = mask(0.5, {.seed = 1, .layer = 0, .epoch = 0, .samples = rows}, E);
  auto shifted = counted(N);
  for (int32_t& s : shifted) ++s;
  for (const DropoutKey& other :
       {DropoutKey{2, 0, 0, rows}, DropoutKey{1, 1, 0, rows}, DropoutKey{1, 0, 1, rows},
        DropoutKey{1, 0, 0, samples(shifted)}, DropoutKey{uint64_t{1} << 40, 0, 0, rows}}) {
    const auto values = mask(0.5, other, E);
    int64_t equal = 0;
    for (size_t i = 0; i < values.size(); ++i) equal += values[i] == base[i];
    require_binomial(equal, N * E, 0.5);
  }
}

TEST_CASE("dropout's gradient is its mask", "[ops]") {
  const DropoutKey key{.seed = 9, .layer = 4, .epoch = 2, .samples = samples(counted(6))};
  for (const bool over : {false, true}) {  // also with y written over x, and dx over dy
    const Tensor x = require_grad(ones({6, 50}));
    backward_of_sum(over ? dropout(scale(x, 1), 0.25, key) : dropout(x, 0.25, key));
    REQUIRE(to_doubles(grad(x)) == mask(0.25, key, 50));
  }
}

TEST_CASE("dropout with p 0 is no op", "[ops]") {
  const Tensor x = ones({2, 3});
  REQUIRE(dropout(x, 0, {.samples = samples({0, 1})}).view().data == x.view().data);
}

TEST_CASE("dropout refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto rows = samples({0, 1});
  REQUIRE_ERROR(dropout(ones({2, 3}), 1, {.samples = rows}), "p is 1, expected it in [0, 1)");
  REQUIRE_ERROR(dropout(ones({2, 3}), -0.1, {.samples = rows}), "p is -0.1");
  REQUIRE_ERROR(dropout(ones({2, 3}), std::nan(""), {.samples = rows}), "p is nan");
  REQUIRE_ERROR(dropout(ones({3, 2}), 0.5, {.samples = rows}), "x [3, 2] and samples i32 [2]");
  REQUIRE_ERROR(stochastic_depth(ones({2, 3}), 1, {.samples = rows}), "[stochastic_depth] p is 1");
  REQUIRE_ERROR(stochastic_depth(ones({3, 2}), 0.5, {.samples = rows}),
                "[stochastic_depth] x [3, 2] and samples i32 [2]");
  REQUIRE_ERROR(dropout(ones({2, 3}), 0.5, {}), "expected x [N, ...] and i32 samples [N]");
  REQUIRE_ERROR(dropout(ones({2, 3}), 0.5, {.epoch = -1, .samples = rows}), "epoch is -1");
}

}  // namespace accrue::test
