#include "kernels/attention.h"

#include <cmath>

#include "core/autograd.h"
#include "kernels/causal_attention.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

struct AttentionSizes {
  size_t N, H, G, T, S, D, E;

  Shape q() const { return make(H, T, D); }
  Shape k() const { return make(G, S, D); }
  Shape v() const { return make(G, S, E); }

 private:
  Shape make(size_t a, size_t b, size_t c) const {
    return {int64_t(N), int64_t(a), int64_t(b), int64_t(c)};
  }
};

struct Seen {
  AttentionMask mask = AttentionMask::none;
  std::vector<int32_t> lengths = {};
  std::optional<double> scale = {};
};

Values attend(const AttentionSizes& z, const Seen& seen, const std::vector<Values>& in) {
  const auto& [q, k, v] = std::tie(in[0], in[1], in[2]);
  const double scale = seen.scale.value_or(1 / std::sqrt(double(z.D)));
  Values y;
  for (size_t row = 0; row < z.N * z.H * z.T; ++row) {
    const size_t n = row / z.T / z.H, h = row / z.T % z.H, t = row % z.T;
    const size_t group = n * z.G + h / (z.H / z.G);
    size_t keys = seen.lengths.empty() ? z.S : size_t(seen.lengths[n]);
    if (seen.mask == AttentionMask::causal) keys = std::min(keys, t + 1);
    Values p;
    double sum = 0;
    for (size_t s = 0; s < keys; ++s) {
      double score = 0;
      for (size_t d = 0; d < z.D; ++d) score += q[row * z.D + d] * k[(group * z.S + s) * z.D + d];
      p.push_back(std::exp(scale * score));
      sum += p.back();
    }
    for (size_t e = 0; e < z.E; ++e) {
      double value = 0;
      for (size_t s = 0; s < keys; ++s) value += p[s] / sum * v[(group * z.S + s) * z.E + e];
      y.push_back(value);
    }
  }
  return y;
}

Op attention_op(std::string_view name, const AttentionSizes& z, const Seen& seen) {
  return {.name = fmt::format("attention {}", name),
          .inputs = {z.q(), z.k(), z.v()},
          .run =
              [=](const auto& in) {
                const Tensor lengths =
                    seen.lengths.empty() ? Tensor() : indices(seen.lengths, in[0]);
                return attention(in[0], in[1], in[2], {seen.mask, lengths, seen.scale});
              },
          .reference = [=](const auto& in) { return attend(z, seen, in); },
          .depth = double(z.D + z.S * z.H) + 12,
          // Scores, probabilities and the result.
          .roundings = 3};
}

}  // namespace

TEST_CASE("attention", "[ops]") {
  const auto causal = AttentionMask::causal;
  check_op(attention_op("to all keys", {2, 2, 2, 3, 5, 4, 3}, {}));
  check_op(attention_op("of groups", {2, 4, 2, 3, 5, 4, 4}, {}));
  check_op(attention_op("of one group", {1, 3, 1, 2, 4, 2, 2}, {.scale = 0.25}));
  check_op(attention_op("with lengths", {3, 2, 1, 3, 5, 2, 3}, {.lengths = {5, 1, 3}}));
  check_op(attention_op("causal", {2, 2, 1, 4, 4, 3, 3}, {causal}));
  check_op(attention_op("causal, with lengths", {2, 2, 2, 4, 4, 3, 3}, {causal, {2, 4}}));
  check_op(attention_op("of one key", {1, 1, 1, 1, 1, 1, 1}, {}));
}

// causal_attention has its heads side by side in rows; with one head, that is the same.
TEST_CASE("attention with a causal mask is causal_attention", "[ops]") {
  const Shape rows{2, 37, 16}, heads{2, 1, 37, 16};
  const auto make = [&](uint64_t seed) {
    return tensor_with(random_values(rows, seed, 2), rows, DType::f64);
  };
  const Tensor q = make(1), k = make(2), v = make(3);
  const Values blocks = to_doubles(causal_attention(q, k, v, {1, 1, 16})),
               whole = to_doubles(attention(q.reshape(heads), k.reshape(heads), v.reshape(heads),
                                            {AttentionMask::causal}));
  for (size_t i = 0; i < whole.size(); ++i) REQUIRE(std::abs(whole[i] - blocks[i]) < 1e-13);
}

TEST_CASE("attention keeps one matrix of probabilities", "[ops]") {
  if (test_device() != Device::cpu) return;
  const Tensor q = require_grad(ones({1, 2, 50, 4})), k = ones({1, 2, 60, 4});
  const auto bytes = [] { return ledger(Device::cpu).current()[Category::activations]; };
  const auto before = bytes();
  const Tensor y = attention(q, k, k);
  REQUIRE(bytes() - before == 4 * (2 * 50 * 60 + 2 * 50 * 4));
}

TEST_CASE("attention refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor q = ones({2, 4, 3, 5}), k = ones({2, 2, 6, 5});
  REQUIRE_ERROR(attention(q, ones({2, 3, 6, 5}), ones({2, 3, 6, 5})), "H a multiple of G");
  REQUIRE_ERROR(attention(q, k, ones({2, 2, 5, 5})), "q [2, 4, 3, 5], k [2, 2, 6, 5]");
  REQUIRE_ERROR(attention(q, ones({2, 2, 6, 4}), k), "and v [2, 2, 6, 5]");
  REQUIRE_ERROR(attention(ones({4, 3, 5}), k, k), "expected q [N, H, T, D]");
  REQUIRE_ERROR(attention(q, k, k, {AttentionMask::causal}), "3 queries and 6 keys");
  REQUIRE_ERROR(attention(q, k, k, {.lengths = indices({1, 2, 3}, q)}), "lengths i32 [3]");
  REQUIRE_ERROR(attention(q, k, k, {.lengths = ones({2})}), "lengths f32 [2]");
  if (is_meta(test_device())) return;  // which knows no values
  for (const int32_t wrong : {0, 7, -1}) {
    const AttentionOptions options{.lengths = indices({3, wrong}, q)};
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(attention(q, k, k, options), "of sample 1: expected 1 to 6");
      continue;
    }
    const Values y = to_doubles(attention(q, k, k, options));
    REQUIRE((std::abs(y.front() - 1) < 1e-6 && std::isnan(y.back())));
  }
}

}  // namespace accrue::test
