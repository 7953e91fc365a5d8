#include "kernels/segment_mean.h"

#include <cmath>

#include "core/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor lengths_of(const std::vector<int32_t>& lengths, int64_t P, const Tensor& like) {
  return indices(lengths, like).reshape({std::ssize(lengths) / P, P});
}

Op segment_mean_op(const Shape& x, const std::vector<int32_t>& lengths, int64_t P) {
  return {.name = fmt::format("segment_mean of {} in {}", x, P),
          .inputs = {x},
          .run = [=](const auto& in) { return segment_mean(in[0], lengths_of(lengths, P, in[0])); },
          .reference =
              [=](const auto& in) {
                const size_t T = size_t(x[1]), E = size_t(x[2]);
                Values y;
                for (size_t n = 0; n < size_t(x[0]); ++n) {
                  size_t begin = n * T;
                  for (size_t p = 0; p < size_t(P); ++p) {
                    const auto L = size_t(lengths[n * size_t(P) + p]);
                    for (size_t e = 0; e < E; ++e) {
                      double sum = 0;
                      for (size_t t = begin; t < begin + L; ++t) sum += in[0][t * E + e];
                      y.push_back(sum / double(L));
                    }
                    begin += L;
                  }
                }
                return y;
              },
          // The sum is in float64. The roundings are the quotient, its conversion, and the share in
          // the gradient.
          .depth = 3};
}

}  // namespace

TEST_CASE("segment_mean", "[ops]") {
  check_op(segment_mean_op({3, 6, 3}, {2, 3, 1, 5, 4, 1}, 2));  // with padding and without
  check_op(segment_mean_op({2, 5, 70}, {1, 1, 1, 3, 1, 1}, 3));
  check_op(segment_mean_op({2, 4, 2}, {4, 1}, 1));
}

TEST_CASE("segment_mean's gradient is 0 behind the segments, and adds nothing there", "[ops]") {
  const Tensor x = require_grad(ones({1, 4, 1}));
  const auto run = [&] {
    backward_of_sum(segment_mean(x, lengths_of({1, 2}, 2, x)));
    return to_doubles(grad(x));
  };
  REQUIRE(run() == Values{1, 0.5, 0.5, 0});
  grad(x).fill(std::nan(""));
  zero_grad(x);
  REQUIRE(run() == Values{1, 0.5, 0.5, 0});
  grad(x).fill(9);
  REQUIRE(run() == Values{10, 9.5, 9.5, 9});
}

TEST_CASE("segment_mean refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({1, 4, 2});
  REQUIRE_ERROR(segment_mean(ones({4, 2}), lengths_of({1}, 1, x)), "x [4, 2]");
  REQUIRE_ERROR(segment_mean(x, indices({1}, x)), "lengths i32 [1]");
  REQUIRE_ERROR(segment_mean(x, lengths_of({1, 1}, 1, x)), "lengths i32 [2, 1]");
  if (is_meta(test_device())) return;  // which knows no values
  if (test_device() != Device::cpu) {
    REQUIRE(std::isnan(to_doubles(segment_mean(x, lengths_of({1, 0}, 2, x)))[2]));
    return;
  }
  REQUIRE_ERROR(segment_mean(x, lengths_of({1, 0}, 2, x)), "segment 1 of row 0 has 0 elements");
  REQUIRE_ERROR(segment_mean(x, lengths_of({3, 2}, 2, x)), "and 4 in the row");
}

}  // namespace accrue::test
