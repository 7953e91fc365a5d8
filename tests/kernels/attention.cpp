#include "kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "core/autograd.h"
#include "kernels/batched_matmul.h"
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
  Values key_mask = {};  // [N, S]
};

// A mask of four keys of two samples: it hides one in front of others, and two behind them.
const Values some_of_4{0, 1, 1, 1, 1, 1, 0, 0};

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
      if (!seen.key_mask.empty() && seen.key_mask[n * z.S + s] == 0) {
        p.push_back(0);
        continue;
      }
      double score = 0;
      for (size_t d = 0; d < z.D; ++d) score += q[row * z.D + d] * k[(group * z.S + s) * z.D + d];
      p.push_back(std::exp(scale * score));
      sum += p.back();
    }
    for (size_t e = 0; e < z.E; ++e) {
      double value = 0;
      for (size_t s = 0; s < keys && sum > 0; ++s)
        value += p[s] / sum * v[(group * z.S + s) * z.E + e];
      y.push_back(value);
    }
  }
  return y;
}

Tensor key_mask_of(const Seen& seen, const Tensor& near, size_t S) {
  if (seen.key_mask.empty()) return {};
  const Shape shape{near.size(0), int64_t(S)};
  if (is_meta(near.device()))
    return Tensor::empty(shape, near.dtype(), near.device(), Category::data);
  const Tensor host = Tensor::empty(shape, near.dtype(), Device::cpu, Category::data);
  host.copy_from(tensor_with(seen.key_mask, shape, near.dtype()).to(Device::cpu));
  return host.to(near.device());
}

AttentionOptions options_of(const Seen& seen, const Tensor& near, size_t S) {
  return {seen.mask, seen.lengths.empty() ? Tensor() : indices(seen.lengths, near), seen.scale,
          key_mask_of(seen, near, S)};
}

Op attention_op(std::string_view name, const AttentionSizes& z, const Seen& seen) {
  return {.name = fmt::format("attention {}", name),
          .inputs = {z.q(), z.k(), z.v()},
          .run =
              [=](const auto& in) {
                return attention(in[0], in[1], in[2], options_of(seen, in[0], z.S));
              },
          .reference = [=](const auto& in) { return attend(z, seen, in); },
          .depth = double(z.D + z.S * z.H) + 12,
          // Scores and probabilities too, on tensor cores and with a negative scale.
          .roundings = 3};
}

// x [N, A, B, D] as [N, B, A, D], from column `first` of rows of `width` on.
Values exchanged(const Values& x, size_t N, size_t A, size_t B, size_t D, size_t first = 0,
                 size_t width = 0) {
  if (width == 0) width = B * D;
  Values y;
  for (size_t n = 0; n < N; ++n)
    for (size_t b = 0; b < B; ++b)
      for (size_t a = 0; a < A; ++a)
        for (size_t d = 0; d < D; ++d) y.push_back(x[(n * A + a) * width + first + b * D + d]);
  return y;
}

detail::AttentionHeads heads_of(const AttentionSizes& z) {
  return {int64_t(z.H), int64_t(z.G), int64_t(z.D)};
}

Op rows_op(std::string_view name, const AttentionSizes& z, const Seen& seen) {
  const size_t in_q = z.H * z.D, in_k = z.G * z.D;
  Op op = attention_op(name, z, seen);
  op.name = fmt::format("attention of rows {}", name);
  op.inputs = {Shape{int64_t(z.N), int64_t(z.T), int64_t(in_q)},
               Shape{int64_t(z.N), int64_t(z.S), int64_t(in_k)},
               Shape{int64_t(z.N), int64_t(z.S), int64_t(in_k)}};
  op.run = [=](const auto& in) {
    return attention_rows(in[0], in[1], in[2], heads_of(z), options_of(seen, in[0], z.S));
  };
  op.reference = [=](const auto& in) {
    const Values y =
        attend(z, seen,
               {exchanged(in[0], z.N, z.T, z.H, z.D), exchanged(in[1], z.N, z.S, z.G, z.D),
                exchanged(in[2], z.N, z.S, z.G, z.D)});
    return exchanged(y, z.N, z.H, z.T, z.D);
  };
  return op;
}

Op packed_op(std::string_view name, const AttentionSizes& z, const Seen& seen) {
  const size_t in_q = z.H * z.D, in_k = z.G * z.D, width = in_q + 2 * in_k;
  Op op = attention_op(name, z, seen);
  op.name = fmt::format("attention of packed rows {}", name);
  op.inputs = {Shape{int64_t(z.N), int64_t(z.T), int64_t(width)}};
  op.run = [=](const auto& in) {
    return attention_rows(in[0], heads_of(z), options_of(seen, in[0], z.S));
  };
  op.reference = [=](const auto& in) {
    const Values y = attend(z, seen,
                            {exchanged(in[0], z.N, z.T, z.H, z.D, 0, width),
                             exchanged(in[0], z.N, z.T, z.G, z.D, in_q, width),
                             exchanged(in[0], z.N, z.T, z.G, z.D, in_q + in_k, width)});
    return exchanged(y, z.N, z.H, z.T, z.D);
  };
  return op;
}

// Y and the gradients of q, k and v.
std::vector<Values> results_of(const AttentionSizes& z, const Seen& seen, DType dtype,
                               bool in_blocks) {
  std::vector<Tensor> in;
  for (const Shape& shape : {z.q(), z.k(), z.v()})
    in.push_back(require_grad(tensor_with(random_values(shape, in.size() + 1, 2), shape, dtype)));
  const Tensor lengths = seen.lengths.empty() ? Tensor() : indices(seen.lengths, in[0]);
  const int64_t N = in[0].size(0), H = in[0].size(1), T = in[0].size(2), G = in[1].size(1),
                S = in[1].size(2), rows = H / G * T;
  Tensor y;
  if (in_blocks) {
    y = attention(in[0], in[1], in[2], {seen.mask, lengths, seen.scale});
  } else {
    const Tensor scores =
        matmul(in[0].reshape({N, G, rows, in[0].size(3)}), in[1], Transpose::no, Transpose::yes);
    const Tensor p =
        detail::softmax_of_scores(scores.reshape({N, H, T, S}), *seen.scale, lengths, seen.mask);
    y = matmul(p.reshape({N, G, rows, S}), in[2]).reshape({N, H, T, in[2].size(3)});
  }
  std::vector<Values> results{to_doubles(y)};
  backward_from(y, random_values(y.shape(), 9));
  for (const Tensor& x : in) results.push_back(to_doubles(grad(x)));
  return results;
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
  check_op(attention_op("of tensor cores", {1, 2, 1, 3, 4, 8, 8}, {.lengths = {3}}));
  check_op(attention_op("of turned scores", {2, 2, 1, 3, 3, 2, 3}, {causal, {2, 3}, -0.5}));
  check_op(attention_op("with a key mask", {2, 2, 1, 3, 4, 2, 3}, {.key_mask = some_of_4}));
}

TEST_CASE("attention of rows", "[ops]") {
  const auto causal = AttentionMask::causal;
  check_op(rows_op("to all keys", {2, 2, 2, 3, 5, 4, 4}, {}));
  check_op(rows_op("of groups", {2, 4, 2, 5, 3, 3, 3}, {.scale = 0.25}));
  check_op(rows_op("with lengths", {3, 2, 1, 3, 5, 2, 2}, {.lengths = {5, 1, 3}}));
  check_op(rows_op("causal", {2, 2, 1, 4, 4, 3, 3}, {causal}));
  check_op(rows_op("of one key", {1, 1, 1, 1, 1, 1, 1}, {}));
  check_op(rows_op("of tensor cores", {1, 2, 2, 3, 4, 8, 8}, {.lengths = {3}}));
  check_op(packed_op("to all keys", {2, 3, 3, 4, 4, 2, 2}, {}));
  check_op(packed_op("of groups", {2, 4, 2, 3, 3, 3, 3}, {.scale = 0.25}));
  check_op(packed_op("with lengths", {3, 2, 1, 5, 5, 2, 2}, {.lengths = {5, 1, 3}}));
  check_op(packed_op("causal, with lengths", {2, 2, 2, 4, 4, 3, 3}, {causal, {2, 4}}));
  check_op(packed_op("of tensor cores", {1, 2, 1, 4, 4, 8, 8}, {}));
  check_op(rows_op("with a key mask", {2, 2, 1, 3, 4, 3, 3}, {.key_mask = some_of_4}));
  // The first query of the first sample sees no key.
  check_op(
      packed_op("causal, with a key mask", {2, 2, 1, 4, 4, 3, 3}, {causal, {4, 3}, {}, some_of_4}));
  check_op(packed_op("of tensor cores, with a key mask", {2, 2, 1, 4, 4, 8, 8},
                     {causal, {}, {}, some_of_4}));
}

TEST_CASE("attention in many blocks is a product by a softmax", "[ops]") {
  const auto causal = AttentionMask::causal;
  const auto check = [](const AttentionSizes& z, const Seen& seen, DType dtype, double most) {
    const auto blocks = results_of(z, seen, dtype, true), whole = results_of(z, seen, dtype, false);
    for (size_t i = 0; i < blocks.size(); ++i)
      for (size_t j = 0; j < blocks[i].size(); ++j)
        REQUIRE(std::abs(blocks[i][j] - whole[i][j]) < most);
  };
  check({2, 4, 2, 70, 150, 6, 5}, {.lengths = {150, 97}, .scale = 0.3}, DType::f64, 1e-12);
  check({2, 2, 2, 110, 110, 4, 7}, {causal, {60, 110}, 0.5}, DType::f64, 1e-12);
  check({1, 4, 2, 75, 140, 16, 16}, {.lengths = {131}, .scale = 0.25}, DType::bf16, 0.06);
  check({1, 2, 1, 140, 140, 16, 16}, {causal, {100}, 0.25}, DType::f16, 0.01);
}

// Head sizes that fill a part of a tile's channels, lengths one short of and one beyond a tile, and
// groups of 8 heads, in several orders of the runner's threads.
TEST_CASE("attention at the edges of tiles is a product by a softmax", "[ops]") {
  const auto causal = AttentionMask::causal;
  const std::vector<std::pair<AttentionSizes, Seen>> cases{
      {{1, 8, 1, 1, 63, 72, 72}, {.lengths = {61}, .scale = 0.1}},
      {{1, 1, 1, 63, 65, 96, 72}, {.scale = 0.1}},
      {{2, 1, 1, 65, 65, 72, 96}, {causal, {65, 1}, 0.1}},
      {{1, 8, 1, 65, 63, 24, 16}, {.lengths = {63}, .scale = 0.2}},
      {{1, 1, 1, 129, 129, 16, 24}, {causal, {}, 0.25}}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [z, seen] = cases[i];
    set_thread_order(int(i) + 1);
    const DType dtype = i % 2 ? DType::f16 : DType::bf16;
    const double most = dtype == DType::f16 ? 0.01 : 0.06;
    const auto blocks = results_of(z, seen, dtype, true),
               exact = results_of(z, seen, DType::f64, false);
    for (size_t j = 0; j < blocks.size(); ++j) {
      double largest = 1;
      for (const double x : exact[j]) largest = std::max(largest, std::abs(x));
      for (size_t k = 0; k < blocks[j].size(); ++k)
        REQUIRE(std::abs(blocks[j][k] - exact[j][k]) < most * largest);
    }
  }
  set_thread_order(0);
}

TEST_CASE("attention does not read the keys behind a length", "[ops]") {
  const auto check = [](const AttentionSizes& z, DType dtype) {
    const auto results = [&](double padding) {
      std::vector<Tensor> in;
      for (const Shape& shape : {z.q(), z.k(), z.v()}) {
        Values x = random_values(shape, in.size() + 1);
        if (!in.empty())
          for (size_t s = 33; s < z.S; ++s)  // of the first sample's first group
            for (size_t d = 0; d < z.D; ++d) x[s * z.D + d] = padding;
        in.push_back(require_grad(tensor_with(x, shape, dtype)));
      }
      const Tensor y = attention(in[0], in[1], in[2], {.lengths = indices({33, 70}, in[0])});
      backward_from(y, random_values(y.shape(), 9));
      std::vector<Values> all{to_doubles(y)};
      for (const Tensor& x : in) all.push_back(to_doubles(grad(x)));
      return all;
    };
    for (const double padding : {double(NAN), double(INFINITY)})
      REQUIRE(results(padding) == results(1));
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    check({2, 2, 1, 20, 70, 16, 16}, dtype);
  check({2, 1, 1, 3, 70, 5, 5}, DType::f64);
}

// y and the gradients of q, k and v; k and v have one group of keys. Without a mask they have only
// the keys that it leaves, and 0 is the gradient of the others.
std::vector<Values> results_of_masked(const AttentionSizes& z, const Values& mask, bool has_mask,
                                      double hidden, DType dtype) {
  std::vector<Tensor> in;
  std::vector<Values> given;
  for (const Shape& shape : {z.q(), z.k(), z.v()})
    given.push_back(random_values(shape, given.size() + 1));
  const auto kept = size_t(std::count(mask.begin(), mask.end(), 1.0));
  for (size_t i = 0; i < 3; ++i) {
    const size_t width = i < 2 ? z.D : z.E;
    Values x;
    for (size_t s = 0; s < (i == 0 ? 0 : z.S); ++s)
      for (size_t d = 0; d < width; ++d)
        if (mask[s] != 0) x.push_back(given[i][s * width + d]);
        else if (has_mask) x.push_back(hidden);
    const auto keys = int64_t(has_mask ? z.S : kept);
    const Shape shape = i == 0 ? z.q() : Shape{1, 1, keys, int64_t(width)};
    in.push_back(require_grad(tensor_with(i == 0 ? given[i] : x, shape, dtype)));
  }
  AttentionOptions options;
  if (has_mask) options.key_mask = tensor_with(mask, {1, int64_t(z.S)}, dtype);
  const Tensor y = attention(in[0], in[1], in[2], options);
  backward_from(y, random_values(y.shape(), 9));
  std::vector<Values> results{to_doubles(y), to_doubles(grad(in[0]))};
  for (const Tensor& x : {in[1], in[2]}) {
    const Values all = to_doubles(grad(x));
    const auto width = size_t(x.size(3));
    Values of_seen;
    for (size_t s = 0; s < all.size() / width; ++s)
      for (size_t d = 0; d < width; ++d)
        if (!has_mask || mask[s] != 0) of_seen.push_back(all[s * width + d]);
        else REQUIRE(all[s * width + d] == 0);
    results.push_back(of_seen);
  }
  return results;
}

TEST_CASE("attention with a key mask is attention to the keys that it leaves", "[ops]") {
  const auto check = [](const AttentionSizes& z, DType dtype, double most) {
    Values mask(z.S, 1.0);
    for (size_t s = 0; s < z.S; ++s)
      if (s % 3 == 1 || (s > 60 && s < 130)) mask[s] = 0;
    const auto left = results_of_masked(z, mask, false, 0, dtype);
    for (const double hidden : {1.0, double(NAN), double(INFINITY)}) {
      const auto masked = results_of_masked(z, mask, true, hidden, dtype);
      for (size_t i = 0; i < masked.size(); ++i)
        for (size_t j = 0; j < masked[i].size(); ++j)
          REQUIRE(std::abs(masked[i][j] - left[i][j]) < most);
    }
  };
  // Sums of 150 terms of the order of 1, in other blocks.
  check({1, 2, 1, 20, 150, 6, 5}, DType::f64, 1e-13);
  check({1, 2, 1, 20, 150, 16, 16}, DType::f32, 1e-5);
  check({1, 2, 1, 20, 150, 16, 16}, DType::f16, 0.01);
  check({1, 2, 1, 20, 150, 16, 16}, DType::bf16, 0.06);
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

TEST_CASE("attention keeps y and a logarithm for each query, and its scratch is as small",
          "[ops]") {
  for (const Device device : {Device::meta, Device::meta_cuda}) {
    const auto peaks = [&](int64_t T) {
      const auto make = [&] { return Tensor::full({1, 2, T, 4}, 1, DType::f32, device); };
      const Tensor q = require_grad(make()), k = make();
      auto& bytes = ledger(device);
      const auto before = bytes.current()[Category::activations];
      const Tensor y = attention(q, k, k);
      REQUIRE(bytes.current()[Category::activations] - before == size_t(4 * 2 * T * (4 + 1)));
      bytes.reset_peak();
      backward_of_sum(y);
      return double(bytes.peak().total());
    };
    REQUIRE(peaks(1 << 16) < 2.1 * peaks(1 << 15));
  }
}

TEST_CASE("attention of rows keeps no heads", "[ops]") {
  constexpr int64_t N = 2, T = 8, H = 2, G = 1, D = 4;  // of whole blocks of the ledger
  const MetaScope on(true);
  const Tensor qkv = require_grad(ones({N, T, (H + 2 * G) * D}));
  auto& bytes = ledger(qkv.device());
  const auto before = bytes.current()[Category::activations];
  const Tensor y = attention_rows(qkv, {H, G, D});
  REQUIRE(y.shape() == Shape{N, T, H * D});
  REQUIRE(bytes.current()[Category::activations] - before == size_t(4 * N * T * H * (D + 1)));
}

TEST_CASE("attention of rows refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor q = ones({2, 4, 12}), k = ones({2, 5, 6});
  const detail::AttentionHeads heads{4, 2, 3};
  REQUIRE_ERROR(attention_rows(q, k, ones({2, 4, 6}), heads), "q [2, 4, 12], k [2, 5, 6] and v");
  REQUIRE_ERROR(attention_rows(q, ones({1, 5, 6}), ones({1, 5, 6}), heads), "k and v [N, S, 6]");
  REQUIRE_ERROR(attention_rows(k, k, k, heads), "expected q [N, T, 12]");
  REQUIRE_ERROR(attention_rows(q, k, k, {4, 3, 3}), "4 heads of queries in 3 groups");
  REQUIRE_ERROR(attention_rows(q, k, k, heads, {.scale = 0.0}), "the scale 0: expected a positive");
  REQUIRE_ERROR(attention_rows(q, k, k, heads, {AttentionMask::causal}), "4 queries and 5 keys");
  REQUIRE_ERROR(attention_rows(q, k, k, heads, {.lengths = indices({1}, q)}), "lengths i32 [1]");
  REQUIRE_ERROR(attention_rows(q, k, k, heads, {.key_mask = ones({2, 4})}),
                "key_mask f32 [2, 4]: expected f32 [2, 5]");
  REQUIRE_ERROR(attention_rows(q, heads), "expected [N, T, 24]");
  REQUIRE_ERROR(attention_rows(ones({2, 24}), heads), "qkv [2, 24]");
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
  REQUIRE_ERROR(attention(q, k, k, {.key_mask = indices({1, 1}, q)}), "key_mask i32 [2]");
  REQUIRE_ERROR(attention(q, k, k, {.scale = -1, .key_mask = ones({2, 6})}), "scale -1: expected");
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
