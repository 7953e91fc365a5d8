// Ops that read indices: dropout, whose masks belong to samples, and embedding.

#include "kernels/dropout.h"

#include <cmath>
#include <numeric>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/embedding.h"
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

// As if y were summed up to a loss.
void backward_of_sum(const Tensor& y) {
  Tensor loss = ones({});
  const Edge edge = y;
  record("sum", loss, {edge}, [edge](Tensor&) {
    claim_grad(edge);
    edge.variable()->grad.fill(1);
  });
  backward(loss);
}

// Of n independent events of probability q, a count further than 5 standard deviations from the
// mean has a probability below 1e-6.
void require_binomial(int64_t count, int64_t n, double q) {
  const double mean = static_cast<double>(n) * q, deviation = std::sqrt(mean * (1 - q));
  INFO(count << " of " << n << ", expected " << mean << " +- " << 5 * deviation);
  REQUIRE(std::abs(static_cast<double>(count) - mean) <= 5 * deviation);
}

}  // namespace

// The known answers of the authors' Random123 library (kat_vectors, philox4x32 10).
TEST_CASE("Philox gives the published words", "[random]") {
  REQUIRE(philox(0, 0, 0) ==
          std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  REQUIRE(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
          std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  REQUIRE(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
          std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  // Many at once give the words of each.
  std::array<uint32_t, 64> words;
  philox_words<16>(words.data(), 5, 7 + (uint64_t{3} << 32), 9);
  for (size_t i = 0; i < 16; ++i) {
    const auto each = philox(5, 7 + i + (uint64_t{3} << 32), 9);
    REQUIRE(std::equal(each.begin(), each.end(), words.begin() + static_cast<ptrdiff_t>(4 * i)));
  }
}

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
  for (const bool over : {false, true}) {  // also where y goes over x and dx over dy
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
  const auto rows = samples({0, 1});
  REQUIRE_ERROR(dropout(ones({2, 3}), 1, {.samples = rows}), "p is 1, expected it in [0, 1)");
  REQUIRE_ERROR(dropout(ones({2, 3}), -0.1, {.samples = rows}), "p is -0.1");
  REQUIRE_ERROR(dropout(ones({2, 3}), std::nan(""), {.samples = rows}), "p is nan");
  REQUIRE_ERROR(dropout(ones({3, 2}), 0.5, {.samples = rows}), "x [3, 2] and samples i32 [2]");
  REQUIRE_ERROR(dropout(ones({2, 3}), 0.5, {}), "expected x [N, ...] and i32 samples [N]");
  REQUIRE_ERROR(dropout(ones({2, 3}), 0.5, {.epoch = -1, .samples = rows}), "epoch is -1");
}

TEST_CASE("embedding", "[ops]") {
  constexpr size_t V = 6, D = 3;
  // 4 comes three times; 1 and 3 never.
  static const std::vector<int32_t> index{4, 0, 4, 5, 2, 4, 0};
  check_op({.name = "embedding",
            .inputs = {{V, D}},
            .run = [](const auto& in) { return embedding(in[0], indices(index, in[0])); },
            .reference =
                [](const auto& in) {
                  Values y;
                  for (const int32_t v : index)
                    for (size_t d = 0; d < D; ++d)
                      y.push_back(in[0][static_cast<size_t>(v) * D + d]);
                  return y;
                },
            .depth = 3,
            .parameters = {0}});
}

TEST_CASE("embedding's gradient writes 0 to unused rows, and adds nothing to them", "[ops]") {
  const Tensor w = require_grad(ones({4, 2}));
  const auto run = [&] {
    backward_of_sum(embedding(w, samples({2, 0, 2})));
    return to_doubles(grad(w));
  };
  REQUIRE(run() == Values{1, 1, 0, 0, 2, 2, 0, 0});
  grad(w).fill(std::nan(""));
  zero_grad(w);
  REQUIRE(run() == Values{1, 1, 0, 0, 2, 2, 0, 0});
  grad(w).fill(9);
  REQUIRE(run() == Values{10, 10, 9, 9, 11, 11, 9, 9});
}

TEST_CASE("embedding refuses what does not fit", "[ops]") {
  REQUIRE_ERROR(embedding(ones({4}), samples({0})), "w [4] and index i32 [1]");
  REQUIRE_ERROR(embedding(ones({4, 2}), ones({3})), "index f32 [3]");
  REQUIRE_ERROR(embedding(ones({4, 2}), Tensor()), "expected w [V, D]");
}

TEST_CASE("indices out of range are refused, and give NaN where no kernel can throw", "[ops]") {
  const Tensor w = require_grad(ones({4, 2}));
  for (const int32_t bad : {4, -1}) {
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(embedding(w, samples({0, bad})),
                    fmt::format("index {} at position 1 is outside [0, 4)", bad));
      continue;
    }
    zero_grad(w);
    const Tensor rows = embedding(w, samples({0, bad}));
    const Values y = to_doubles(rows);
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i >= 2));
    backward_of_sum(rows);
    Values named(8);  // not a list: GCC 12 fills it with ones at -O3
    named[0] = named[1] = 1;
    REQUIRE(to_doubles(grad(w)) == named);
  }
}

}  // namespace accrue::test
