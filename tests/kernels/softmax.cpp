#include "kernels/softmax.h"

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "kernels/arithmetic.h"
#include "kernels/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinite = std::numeric_limits<double>::infinity();

enum class Result { probabilities, logarithms };

Values softmax_of(const Values& x, const Shape& shape, int dim, Result result) {
  const auto inner = size_t(shape.numel(dim + 1, shape.rank())), C = size_t(shape[dim]);
  Values y = x;
  for (size_t first = 0; first < x.size(); ++first) {
    if (first / inner % C != 0) continue;
    double sum = 0;
    for (size_t c = 0; c < C; ++c) sum += std::exp(x[first + c * inner]);
    for (size_t c = 0; c < C; ++c) {
      double& at = y[first + c * inner];
      at = result == Result::probabilities ? std::exp(at) / sum : at - std::log(sum);
    }
  }
  return y;
}

Op softmax_op(const Shape& shape, int dim, Result result) {
  const bool logarithms = result == Result::logarithms;
  const int from_start = dim < 0 ? dim + shape.rank() : dim;
  return {
      .name = fmt::format("{} of {} along {}", logarithms ? "log_softmax" : "softmax", shape, dim),
      .inputs = {shape},
      .run =
          [=](const auto& in) {
            return logarithms ? log_softmax(in[0], dim) : softmax(in[0], dim);
          },
      .reference = [=](const auto& in) { return softmax_of(in[0], shape, from_start, result); },
      .depth = double(std::min<int64_t>(shape[from_start], 256)) + 8};
}

}  // namespace

TEST_CASE("softmax and log_softmax", "[ops]") {
  for (const Result result : {Result::probabilities, Result::logarithms}) {
    for (int dim = 0; dim < 3; ++dim) check_op(softmax_op({3, 5, 4}, dim, result));
    check_op(softmax_op({7}, 0, result));
    check_op(softmax_op({2, 1}, -1, result));
    check_op(softmax_op({2, 33}, 1, result));
    check_op(softmax_op({2, 3, 67}, 1, result));  // more columns than a thread takes at once
    check_op(softmax_op({1, 2, 1, 2, 3, 1, 2, 2}, -4, result));
  }
}

// Several runs of a sum, and rows that a block of CUDA's has alone.
TEST_CASE("softmax of long rows and columns", "[ops]") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const Shape& shape : {Shape{3, 2600, 1}, Shape{2, 700, 3}}) {
      const Values x = random_values(shape, 4, 8);
      const Tensor leaf = require_grad(tensor_with(x, shape, dtype));
      const Values dy = random_values(shape, 5);
      const Tensor y = softmax(leaf, 1);
      const Values expected = softmax_of(to_doubles(leaf), shape, 1, Result::probabilities);
      const double unit = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-6 : 0x1p-8;
      const Values values = to_doubles(y);
      for (size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::abs(values[i] - expected[i]) <= unit * expected[i] + 1e-30);
      if (dtype != DType::f64) continue;
      backward_from(y, dy);
      const Values dx = to_doubles(grad(leaf));
      const auto inner = size_t(shape[2]), C = size_t(shape[1]);
      for (size_t i = 0; i < dx.size(); ++i) {
        const size_t first = i / (inner * C) * inner * C + i % inner;
        double sum = 0;
        for (size_t c = 0; c < C; ++c) sum += dy[first + c * inner] * expected[first + c * inner];
        REQUIRE(std::abs(dx[i] - expected[i] * (dy[i] - sum)) < 1e-15);
      }
    }
}

// As PyTorch's.
TEST_CASE("softmax of what is not finite", "[ops]") {
  for (const bool by_columns : {false, true}) {
    const auto run = [&](const Values& x) {
      const int64_t C = std::ssize(x);
      if (!by_columns) return to_doubles(softmax(tensor_with(x, {1, C}, DType::f32), 1));
      Values twice;
      for (const double v : x) twice.insert(twice.end(), {v, v});
      const Values y = to_doubles(softmax(tensor_with(twice, {C, 2}, DType::f32), 0));
      Values first;
      for (size_t c = 0; c < size_t(C); ++c) first.push_back(y[2 * c]);
      return first;
    };
    const auto all_nan = [](const Values& y) {
      return std::ranges::all_of(y, [](double v) { return std::isnan(v); });
    };
    REQUIRE(run({-infinite, 0, -infinite}) == Values{0, 1, 0});
    REQUIRE(all_nan(run({-infinite, -infinite})));
    REQUIRE(all_nan(run({0, not_a_number, 1})));
    REQUIRE(all_nan(run({not_a_number, 0})));
    REQUIRE(all_nan(run({infinite, 0})));
    REQUIRE(run({1e30, 1e30}) == Values{0.5, 0.5});
  }
  const Values logs =
      to_doubles(log_softmax(tensor_with({-infinite, 3, -200}, {1, 3}, DType::f32), -1));
  REQUIRE(logs == Values{-infinite, 0, -203});
}

TEST_CASE("softmax writes over what it alone has", "[ops]") {
  Tensor x = tensor_with({0, 0, 1, 1}, {2, 2}, DType::f32);
  const auto* const at = x.view().data;
  const Tensor y = softmax(std::move(x), 1);
  REQUIRE(y.view().data == at);
  REQUIRE(to_doubles(y) == Values(4, 0.5));
  const Tensor kept = tensor_with({0, 0}, {2}, DType::f32);
  softmax(kept, 0);
  REQUIRE(to_doubles(kept) == Values{0, 0});
}

TEST_CASE("softmax of scores sees the first keys alone", "[ops]") {
  const Shape shape{2, 2, 3, 5};  // N, H, T, S
  const std::vector<int32_t> lengths{4, 2};
  for (const bool causal : {false, true})
    for (const bool with_lengths : {false, true}) {
      const auto mask = causal ? AttentionMask::causal : AttentionMask::none;
      check_op(
          {.name = fmt::format("softmax_of_scores, causal {}, lengths {}", causal, with_lengths),
           .inputs = {shape},
           .run =
               [=](const auto& in) {
                 return detail::softmax_of_scores(
                     in[0], 0.5, with_lengths ? indices(lengths, in[0]) : Tensor(), mask);
               },
           .reference =
               [=](const auto& in) {
                 Values y(in[0].size());
                 for (size_t row = 0; row < 12; ++row) {
                   size_t seen = with_lengths ? size_t(lengths[row / 6]) : 5;
                   if (causal) seen = std::min(seen, row % 3 + 1);
                   double sum = 0;
                   for (size_t s = 0; s < seen; ++s) sum += std::exp(in[0][row * 5 + s] / 2);
                   for (size_t s = 0; s < seen; ++s)
                     y[row * 5 + s] = std::exp(in[0][row * 5 + s] / 2) / sum;
                 }
                 return y;
               },
           .depth = 12});
    }
}

TEST_CASE("any number of threads gives softmax's bits", "[ops]") {
  if (test_device() != Device::cpu) return;
  for (const int dim : {0, 1}) {
    const Tensor x = tensor_with(random_values({300, 301}, 5, 4), {300, 301}, DType::f32);
    std::vector<Values> results;
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      results.push_back(to_doubles(softmax(x, dim)));
      set_thread_count(0);
    }
    REQUIRE((results[0] == results[1] && results[0] == results[2]));
  }
}

TEST_CASE("softmax refuses a dimension that does not exist", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(softmax(ones({2, 3}), 2), "[softmax] dimension 2 of x [2, 3] does not exist");
  REQUIRE_ERROR(log_softmax(ones({2, 3}), -3), "[log_softmax] dimension -3 of x [2, 3]");
  REQUIRE(softmax(ones({0, 3}), 1).numel() == 0);
  REQUIRE(softmax(ones({3, 0}), 1).numel() == 0);
}

}  // namespace accrue::test
