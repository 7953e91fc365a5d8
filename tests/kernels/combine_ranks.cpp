#include "kernels/step/combine_ranks.h"

#include <cmath>
#include <limits>

#include "core/tensor.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

// Values of very different sizes: their sum depends on the order.
Tensor rows_of_ranks(int64_t R, int64_t n, DType dtype) {
  const Tensor x = Tensor::empty({R, n}, dtype, Device::cpu, Category::workspace);
  dispatch_wide(dtype, [&]<class T>() {
    for (int64_t i = 0; i < R * n; ++i)
      x.span<T>()[size_t(i)] = T(std::sin(double(i * 7 + 1)) * std::exp2(double(i % 61)));
  });
  return x;
}

double rounded(double value, DType dtype) {
  return dtype == DType::f32 ? double(float(value)) : value;
}

}  // namespace

TEST_CASE("the ranks' values become their sum, added in order and rounded once", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t R : {1, 2, 3, 8})
      // Rows with and without whole vectors of 16 bytes.
      for (const int64_t n : {0, 1, 7, 16, 1000, 5003}) {
        INFO(R << " ranks, " << n << " values in " << name(dtype));
        const Tensor x = rows_of_ranks(R, n, dtype);
        const std::vector<double> values = to_doubles(x);
        std::vector<double> expected(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
          double sum = values[size_t(i)];
          for (int64_t r = 1; r < R; ++r) sum += values[size_t(r * n + i)];
          expected[size_t(i)] = rounded(sum, dtype);
        }
        const Tensor there = x.to(test_device());
        const Tensor y = Tensor::empty({n}, dtype, test_device(), Category::workspace);
        sum_ranks(y.view(), there.view());
        REQUIRE(to_doubles(y) == expected);
        REQUIRE(to_doubles(there) == values);
        // The result is written over the first row.
        const Tensor first = there.slice(0, 1).reshape({n});
        sum_ranks(first.view(), there.view());
        REQUIRE(to_doubles(first) == expected);
      }
}

TEST_CASE("the ranks' values become their weighted mean", "[ops]") {
  const std::vector<double> weights{0.5, 0, 0.3, 0.2};
  const auto R = static_cast<int64_t>(weights.size());
  const Tensor w = Tensor::from(weights, {R}, test_device());
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t n : {1, 16, 5003}) {
      INFO(n << " values in " << name(dtype));
      const Tensor x = rows_of_ranks(R, n, dtype);
      x.slice(1, 2).fill(std::numeric_limits<double>::quiet_NaN());  // of weight 0
      const std::vector<double> values = to_doubles(x);
      std::vector<double> expected(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const double first = values[size_t(i)];
        double mean = first;
        for (const int64_t r : {2, 3})
          mean = std::fma(weights[size_t(r)], values[size_t(r * n + i)] - first, mean);
        expected[size_t(i)] = rounded(mean, dtype);
      }
      const Tensor y = Tensor::empty({n}, dtype, test_device(), Category::workspace);
      mean_ranks(y.view(), x.to(test_device()).view(), w.view());
      REQUIRE(to_doubles(y) == expected);
    }
}

TEST_CASE("rows of ranks that do not fit are refused", "[ops]") {
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, test_device(), Category::workspace);
  };
  REQUIRE_ERROR(sum_ranks(make({3}).view(), make({2, 4}).view()), "expected x [R, n] and y [n]");
  REQUIRE_ERROR(sum_ranks(make({4}, DType::f64).view(), make({2, 4}).view()), "y f64 [4]");
  REQUIRE_ERROR(mean_ranks(make({4}).view(), make({2, 4}).view(), make({2}).view()),
                "weights f32 [2]");
}

}  // namespace accrue::test
