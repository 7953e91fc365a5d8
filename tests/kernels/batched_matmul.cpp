#include "kernels/batched_matmul.h"

#include "core/autograd.h"
#include "kernels/linear.h"
#include "kernels/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// Where an operand's matrix of this batch begins, for batches of the result's dimensions. Shapes
// are aligned at the last dimension, and a dimension of 1 serves all places.
size_t begin_of_matrix(const Shape& shape, const std::vector<int64_t>& batch) {
  const int dimensions = shape.rank() - 2;
  int64_t i = 0;
  for (int d = 0; d < dimensions; ++d) {
    const int64_t p = batch[batch.size() - size_t(dimensions) + size_t(d)];
    i = i * shape[d] + (shape[d] == 1 ? 0 : p);
  }
  return size_t(i * shape[-2] * shape[-1]);
}

struct ProductRow {
  Shape a, b, c;  // as NumPy has them
  Transpose a_op = Transpose::no, b_op = Transpose::no;
};

// Plain loops over shapes with two dimensions or more.
Values product_of(const ProductRow& row, const Values& a, const Values& b) {
  const bool a_turned = row.a_op == Transpose::yes, b_turned = row.b_op == Transpose::yes;
  const int64_t M = row.c[-2], N = row.c[-1], K = row.a[a_turned ? -2 : -1];
  const int batch_rank = row.c.rank() - 2;
  Values c;
  std::vector<int64_t> batch(size_t(batch_rank), 0);
  for (int64_t n = 0; n < row.c.numel(0, batch_rank); ++n) {
    int64_t rest = n;
    for (int d = batch_rank - 1; d >= 0; --d) {
      batch[size_t(d)] = rest % row.c[d];
      rest /= row.c[d];
    }
    const double* const first = &a[begin_of_matrix(row.a, batch)];
    const double* const second = &b[begin_of_matrix(row.b, batch)];
    for (int64_t m = 0; m < M; ++m)
      for (int64_t j = 0; j < N; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < K; ++k)
          sum += first[a_turned ? k * M + m : m * K + k] * second[b_turned ? j * K + k : k * N + j];
        c.push_back(sum);
      }
  }
  return c;
}

Op matmul_op(const ProductRow& row) {
  const auto name = [](const Shape& x, Transpose op) {
    return fmt::format("{}{}", x, op == Transpose::yes ? "^T" : "");
  };
  // Gradients of operands that serve many products are sums over them.
  return {.name = fmt::format("matmul {} x {}", name(row.a, row.a_op), name(row.b, row.b_op)),
          .inputs = {row.a, row.b},
          .run = [=](const auto& in) { return matmul(in[0], in[1], row.a_op, row.b_op); },
          .reference = [=](const auto& in) { return product_of(row, in[0], in[1]); },
          .depth = double(row.c.numel()) + double(row.a.numel())};
}

}  // namespace

TEST_CASE("matmul of batches", "[ops]") {
  for (const bool a_turned : {false, true})
    for (const bool b_turned : {false, true}) {
      const auto make = [&](std::vector<int64_t> a, std::vector<int64_t> b, const Shape& c) {
        if (a_turned) std::swap(a[a.size() - 2], a.back());
        if (b_turned) std::swap(b[b.size() - 2], b.back());
        return ProductRow{Shape(a), Shape(b), c, a_turned ? Transpose::yes : Transpose::no,
                          b_turned ? Transpose::yes : Transpose::no};
      };
      check_op(matmul_op(make({3, 2}, {2, 4}, {3, 4})));
      check_op(matmul_op(make({3, 2, 5}, {3, 5, 4}, {3, 2, 4})));
      check_op(matmul_op(make({2, 3, 5}, {5, 4}, {2, 3, 4})));           // b serves all
      check_op(matmul_op(make({3, 5}, {2, 5, 4}, {2, 3, 4})));           // a does
      check_op(matmul_op(make({2, 1, 3, 2}, {4, 2, 3}, {2, 4, 3, 3})));  // each in one dimension
      // Many, with whole vectors in a row of c.
      if (!on_runner()) check_op(matmul_op(make({16, 2, 3}, {16, 3, 16}, {16, 2, 16})));
      check_op(matmul_op(make({2, 1, 2, 1, 2}, {1, 3, 2, 2, 3}, {2, 3, 2, 1, 3})));
    }
}

TEST_CASE("matmul of rank 8, and of sizes of 1", "[ops]") {
  check_op(
      matmul_op({{1, 2, 1, 2, 1, 2, 2, 3}, {2, 2, 1, 1, 2, 1, 3, 1}, {2, 2, 1, 2, 2, 2, 2, 1}}));
  check_op(matmul_op({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}));
  check_op(matmul_op({{1, 2, 3}, {3, 2}, {1, 2, 2}}));
  check_op(matmul_op({{2, 3}, {1, 1, 3, 2}, {1, 1, 2, 2}}));
  check_op(matmul_op({{17, 2, 3}, {17, 3, 2}, {17, 2, 2}}));  // many, which threads share out
}

// As PyTorch's matmul.
TEST_CASE("matmul of vectors", "[ops]") {
  const auto check_vectors = [](const Shape& a, const Shape& b, const ProductRow& as_matrices,
                                const Shape& c) {
    check_op({.name = fmt::format("matmul {} x {}", a, b),
              .inputs = {a, b},
              .run = [](const auto& in) { return matmul(in[0], in[1]); },
              .reference = [=](const auto& in) { return product_of(as_matrices, in[0], in[1]); },
              .depth = double(as_matrices.c.numel()) + double(a.numel())});
    REQUIRE(matmul(ones(a), ones(b)).shape() == c);
  };
  check_vectors({3}, {3}, {{1, 3}, {3, 1}, {1, 1}}, {});
  check_vectors({3}, {3, 2}, {{1, 3}, {3, 2}, {1, 2}}, {2});
  check_vectors({2, 3}, {3}, {{2, 3}, {3, 1}, {2, 1}}, {2});
  check_vectors({2, 4, 3}, {3}, {{2, 4, 3}, {3, 1}, {2, 4, 1}}, {2, 4});
  check_vectors({3}, {2, 3, 4}, {{1, 3}, {2, 3, 4}, {2, 1, 4}}, {2, 4});
}

TEST_CASE("matmul of larger matrices", "[ops]") {
  const int64_t M = 70, K = 65, N = 130;
  for (const int64_t batches : {2, 18}) {
    const ProductRow row{{batches, M, K}, {batches, K, N}, {batches, M, N}};
    const Values a = random_values(row.a, 1), b = random_values(row.b, 2);
    const Values c = to_doubles(
                     matmul(tensor_with(a, row.a, DType::f32), tensor_with(b, row.b, DType::f32))),
                 expected = product_of(row, a, b);
    for (size_t i = 0; i < c.size(); ++i) REQUIRE(std::abs(c[i] - expected[i]) < K * 0x1p-22);
  }
}

// 256 ones and more: bfloat16 has no 257.
TEST_CASE("the gradient of an operand that serves many products is rounded once", "[ops]") {
  const Tensor a = require_grad(Tensor::full({1, 1}, 1, DType::bf16, test_device()));
  const Tensor b = Tensor::full({259, 1, 1}, 1, DType::bf16, test_device());
  backward_of_sum(matmul(a, b));
  REQUIRE(grad(a).item() == 260);
}

TEST_CASE("any number of threads gives a batched product's bits", "[ops]") {
  if (test_device() != Device::cpu) return;
  for (const int64_t batches : {3, 40}) {
    const Shape of_a{batches, 50, 33}, of_b{33, 61};
    const Values a = random_values(of_a, 1), b = random_values(of_b, 2);
    std::vector<Values> results;
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      const Tensor left = tensor_with(a, {batches, 33, 50}, DType::f32),
                   right = require_grad(tensor_with(b, of_b, DType::f32));
      const Tensor c = matmul(left, right, Transpose::yes);
      backward_of_sum(c);
      results.push_back(to_doubles(c));
      const Values db = to_doubles(grad(right));
      results.back().insert(results.back().end(), db.begin(), db.end());
      set_thread_count(0);
    }
    REQUIRE((results[0] == results[1] && results[0] == results[2]));
  }
}

TEST_CASE("matmul of nothing", "[ops]") {
  const auto make = [](const Shape& shape) {
    return require_grad(Tensor::full(shape, 1, DType::f32, test_device()));
  };
  REQUIRE(to_doubles(matmul(make({2, 1, 0}), make({2, 0, 2}))) == Values(4, 0));
  REQUIRE(matmul(make({0, 2, 3}), make({0, 3, 2})).numel() == 0);
  for (const int64_t batches : {2, 40}) {
    REQUIRE(matmul(make({batches, 0, 3}), make({batches, 3, 2})).numel() == 0);
    REQUIRE(matmul(make({batches, 2, 3}), make({batches, 3, 0})).numel() == 0);
  }
  const Tensor a = make({2, 3}), b = make({0, 3, 1});
  const Tensor c = matmul(a, b);
  REQUIRE(c.shape() == Shape{0, 2, 1});
  backward_of_sum(c);
  REQUIRE(to_doubles(grad(a)) == Values(6, 0));
}

TEST_CASE("matmul refuses sizes that do not agree", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto refuse = [](const Shape& a, const Shape& b, Transpose a_op, Transpose b_op) {
    return matmul(ones(a), ones(b), a_op, b_op);
  };
  const Transpose no = Transpose::no, yes = Transpose::yes;
  REQUIRE_ERROR(refuse({2, 3}, {4, 5}, no, no),
                "[matmul] a [2, 3] and b [4, 5]: expected a [.., M, K] and b [.., K, N]");
  REQUIRE_ERROR(refuse({2, 3}, {3, 5}, yes, no), "expected a [.., K, M] and b [.., K, N]");
  REQUIRE_ERROR(refuse({2, 3}, {3, 5}, no, yes), "expected a [.., M, K] and b [.., N, K]");
  REQUIRE_ERROR(refuse({2, 2, 3}, {3, 3, 5}, no, no), "expected batches that are equal");
  REQUIRE_ERROR(refuse({3}, {4}, no, no), "[matmul] a [3] and b [4]");
  REQUIRE_ERROR(refuse({3}, {3, 2}, yes, no), "which cannot be transposed");
  REQUIRE_ERROR(refuse({}, {3, 2}, no, no), "[matmul] a [] and b [3, 2]");
}

}  // namespace accrue::test
