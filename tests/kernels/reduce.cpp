#include "kernels/reduce.h"

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "kernels/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN(),
                 infinite_value = std::numeric_limits<double>::infinity();

bool is_reduced(const std::vector<int>& dims, int d, int rank) {
  if (dims.empty()) return true;
  return std::ranges::any_of(dims, [&](int dim) { return dim == d || dim + rank == d; });
}

// The terms of each output, row by row.
std::vector<Values> terms_of(const Values& x, const Shape& shape, const std::vector<int>& dims) {
  const int rank = shape.rank();
  size_t outputs = 1;
  for (int d = 0; d < rank; ++d)
    if (!is_reduced(dims, d, rank)) outputs *= size_t(shape[d]);
  std::vector<Values> terms(outputs);
  for (size_t i = 0; i < x.size(); ++i) {
    size_t o = 0, rest = i, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      if (!is_reduced(dims, d, rank)) {
        o += rest % size_t(shape[d]) * step;
        step *= size_t(shape[d]);
      }
      rest /= size_t(shape[d]);
    }
    terms[o].push_back(x[i]);
  }
  return terms;
}

double sum_of(const Values& terms) {
  double sum = 0;
  for (const double x : terms) sum += x;
  return sum;
}
double mean_of(const Values& terms) { return sum_of(terms) / double(terms.size()); }
double var_of(const Values& terms, double correction) {
  double sum = 0;
  for (const double x : terms) sum += (x - mean_of(terms)) * (x - mean_of(terms));
  return sum / (double(terms.size()) - correction);
}

struct ReductionRow {
  Shape shape;
  std::vector<int> dims;
};

using Run = Tensor (*)(const Tensor&, const std::vector<int>&);
Op op_of(std::string_view name, const ReductionRow& row, Run run,
         double (*of_terms)(const Values&)) {
  return {.name = fmt::format("{} of {} over {}", name, row.shape, fmt::join(row.dims, ", ")),
          .inputs = {row.shape},
          .run = [=](const auto& in) { return run(in[0], row.dims); },
          .reference =
              [=](const auto& in) {
                Values y;
                for (const Values& terms : terms_of(in[0], row.shape, row.dims))
                  y.push_back(of_terms(terms));
                return y;
              },
          // Runs of 256 terms in float.
          .depth = double(std::min<int64_t>(row.shape.numel(), 256)) + 4};
}

// Every axis, axes that are apart, neighbours, all, sizes of 1, and rank 8.
const std::vector<ReductionRow> reduction_rows{{{7}, {0}},
                                               {{}, {}},
                                               {{3, 5}, {0}},
                                               {{3, 5}, {-1}},
                                               {{3, 5}, {}},
                                               {{2, 3, 4}, {1}},
                                               {{2, 3, 4}, {0, 2}},
                                               {{2, 3, 4}, {1, 2}},
                                               {{3, 1, 5}, {1}},
                                               {{1, 5, 1}, {1}},
                                               {{2, 3, 2, 3}, {0, 2, 3}},
                                               {{2, 1, 2, 3, 1, 2, 2, 2}, {0, 3, 5, 7}},
                                               {{2, 1, 2, 3, 1, 2, 2, 2}, {2, 4, 6}}};

}  // namespace

TEST_CASE("sum, mean and var", "[ops]") {
  for (const ReductionRow& row : reduction_rows) {
    check_op(op_of(
        "sum", row, [](const Tensor& x, const auto& dims) { return sum(x, dims); }, sum_of));
    check_op(op_of(
        "mean", row, [](const Tensor& x, const auto& dims) { return mean(x, dims); }, mean_of));
    check_op(op_of(
        "var", row,
        [](const Tensor& x, const auto& dims) { return var(x, dims, KeepDims::yes, 0); },
        [](const Values& terms) { return var_of(terms, 0); }));
  }
  for (const ReductionRow& row :
       {ReductionRow{{3, 5}, {1}}, ReductionRow{{4, 3}, {0}}, ReductionRow{{2, 3, 4}, {0, 2}}})
    check_op(op_of(
        "var with correction", row, [](const Tensor& x, const auto& dims) { return var(x, dims); },
        [](const Values& terms) { return var_of(terms, 1); }));
}

TEST_CASE("amax and amin", "[ops]") {
  for (const ReductionRow& row : reduction_rows) {
    Op largest = op_of(
        "amax", row, [](const Tensor& x, const auto& dims) { return amax(x, dims); },
        [](const Values& terms) { return *std::ranges::max_element(terms); });
    Op smallest = op_of(
        "amin", row, [](const Tensor& x, const auto& dims) { return amin(x, dims); },
        [](const Values& terms) { return *std::ranges::min_element(terms); });
    largest.in_16_bits = smallest.in_16_bits = false;
    check_op(largest);
    check_op(smallest);
  }
}

TEST_CASE("cumsum", "[ops]") {
  for (const ReductionRow& row : {ReductionRow{{5}, {0}}, ReductionRow{{2, 4, 3}, {0}},
                                  ReductionRow{{2, 4, 3}, {-2}}, ReductionRow{{2, 4, 3}, {2}},
                                  ReductionRow{{3, 1, 2}, {1}}, ReductionRow{{2, 3, 130}, {1}}}) {
    const int rank = row.shape.rank(), dim = (row.dims[0] + rank) % rank;
    const auto inner = size_t(row.shape.numel(dim + 1, rank)), size = size_t(row.shape[dim]);
    check_op({.name = fmt::format("cumsum of {} along {}", row.shape, dim),
              .inputs = {row.shape},
              .run = [=](const auto& in) { return cumsum(in[0], row.dims[0]); },
              .reference =
                  [=](const auto& in) {
                    Values y = in[0];
                    for (size_t i = 0; i < y.size(); ++i)
                      if (i / inner % size > 0) y[i] += y[i - inner];
                    return y;
                  },
              .depth = double(size)});
  }
}

// Runs, pieces and blocks: many terms of few outputs and of many, by rows and by columns.
TEST_CASE("long reductions", "[ops]") {
  for (const ReductionRow& row :
       {ReductionRow{{2, 600}, {1}}, ReductionRow{{600, 2}, {0}}, ReductionRow{{70000}, {0}},
        ReductionRow{{35000, 2}, {0}}, ReductionRow{{2, 2, 20000}, {0, 2}},
        ReductionRow{{3, 2, 300}, {0}}, ReductionRow{{2, 40000, 1, 1}, {1}}}) {
    CAPTURE(row.shape);
    const Values values = random_values(row.shape, 3);
    const Tensor x = tensor_with(values, row.shape, DType::f64);
    const std::vector<Values> terms = terms_of(to_doubles(x), row.shape, row.dims);
    const Values sums = to_doubles(sum(x, row.dims)), means = to_doubles(mean(x, row.dims)),
                 variances = to_doubles(var(x, row.dims)), largest = to_doubles(amax(x, row.dims)),
                 smallest = to_doubles(amin(x, row.dims));
    for (size_t o = 0; o < terms.size(); ++o) {
      REQUIRE(std::abs(sums[o] - sum_of(terms[o])) < 1e-10);
      REQUIRE(std::abs(means[o] - mean_of(terms[o])) < 1e-14);
      REQUIRE(std::abs(variances[o] - var_of(terms[o], 1)) < 1e-13);
      REQUIRE(largest[o] == *std::ranges::max_element(terms[o]));
      REQUIRE(smallest[o] == *std::ranges::min_element(terms[o]));
    }
    const Tensor leaf = require_grad(x);
    backward_of_sum(amax(leaf, row.dims));
    const std::vector<Values> slopes = terms_of(to_doubles(grad(leaf)), row.shape, row.dims);
    for (size_t o = 0; o < terms.size(); ++o) {
      REQUIRE(sum_of(slopes[o]) == 1);
      const auto place = std::ranges::max_element(terms[o]) - terms[o].begin();
      REQUIRE(slopes[o][size_t(place)] == 1);
    }
  }
}

TEST_CASE("cumsum of long lines", "[ops]") {
  const Tensor x = require_grad(ones({2, 2500}));
  const Tensor y = cumsum(x, 1);
  backward_of_sum(y);
  const Values sums = to_doubles(y), slopes = to_doubles(grad(x));
  for (size_t i = 0; i < sums.size(); ++i) {
    REQUIRE(sums[i] == double(i % 2500 + 1));
    REQUIRE(slopes[i] == double(2500 - i % 2500));
  }
}

// 2^24 ones are more than float can count one by one.
TEST_CASE("a long sum in 16 bits and in float", "[ops]") {
  const Tensor x = ones({1 << 25});
  REQUIRE(sum(x).item() == double(1 << 25));
  REQUIRE(mean(Tensor::full({70000}, 1, DType::bf16, test_device())).item() == 1);
}

TEST_CASE("any number of threads adds up to the same bits", "[ops]") {
  if (test_device() != Device::cpu) return;
  for (const ReductionRow& row : {ReductionRow{{100000}, {0}}, ReductionRow{{50000, 3}, {0}},
                                  ReductionRow{{40, 5, 700}, {0, 2}}}) {
    const Tensor x = tensor_with(random_values(row.shape, 5), row.shape, DType::f32);
    std::vector<Values> results;
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      results.push_back(to_doubles(var(x, row.dims)));
      set_thread_count(0);
    }
    REQUIRE((results[0] == results[1] && results[0] == results[2]));
  }
}

// PyTorch: x.max(dim), whose gradient goes to the place that it returns.
TEST_CASE("the first of equals is the largest, and NaN before all", "[ops]") {
  const auto make = [](const Values& values) {
    return tensor_with(values, {1, std::ssize(values)}, DType::f32);
  };
  const auto places = [&](const Values& values) {
    const Tensor x = make(values);
    const auto place = [](const Tensor& i) { return i.to(Device::cpu).span<int32_t>()[0]; };
    return std::pair{place(argmax(x, 1)), place(argmin(x, 1))};
  };
  REQUIRE(places({2, 5, 1, 5, 1}) == std::pair{1, 2});
  REQUIRE(places({2, nan_value, 7, nan_value}) == std::pair{1, 1});
  REQUIRE(places({-infinite_value, -infinite_value}) == std::pair{0, 0});
  REQUIRE(places({infinite_value, infinite_value}) == std::pair{0, 0});
  const Tensor x = require_grad(make({2, 5, 1, 5}));
  backward_of_sum(amax(x, {1}));
  REQUIRE(to_doubles(grad(x)) == Values{0, 1, 0, 0});
  backward_of_sum(amax(x, {1}));
  REQUIRE(to_doubles(grad(x)) == Values{0, 2, 0, 0});
  REQUIRE(std::isnan(amax(make({1, nan_value, 3}), {1}).item()));
  REQUIRE(std::isnan(amin(make({nan_value, 1, 3}), {1}).item()));
  REQUIRE(amax(make({-infinite_value, -infinite_value}), {1}).item() == -infinite_value);
  // By columns, and far apart.
  Values many(5000, 0);
  many[1234] = many[4321] = 3;
  REQUIRE(places(many) == std::pair{1234, 0});
  const Tensor tall = tensor_with(many, {2500, 2}, DType::f32);
  REQUIRE(argmax(tall, 0).to(Device::cpu).span<int32_t>()[0] == 617);
  REQUIRE(argmax(tall, 0).to(Device::cpu).span<int32_t>()[1] == 2160);
}

TEST_CASE("argmax has the shape of the reduction, and no gradient", "[ops]") {
  const Tensor x = require_grad(tensor_with(random_values({2, 3, 4}, 1), {2, 3, 4}, DType::f32));
  REQUIRE(argmax(x, 1).shape() == Shape{2, 4});
  REQUIRE(argmin(x, -1, KeepDims::yes).shape() == Shape{2, 3, 1});
  REQUIRE(argmax(x, 0).dtype() == DType::i32);
  REQUIRE(!argmax(x, 0).variable());
  REQUIRE(sum(x).shape() == Shape{});
  REQUIRE(sum(x, {}, KeepDims::yes).shape() == Shape{1, 1, 1});
  REQUIRE(mean(x, {0, -1}).shape() == Shape{3});
  REQUIRE(var(x, {1, 2}, KeepDims::yes).shape() == Shape{2, 1, 1});
}

TEST_CASE("reductions of nothing", "[ops]") {
  const Tensor none = Tensor::full({2, 0}, 0, DType::f32, test_device());
  REQUIRE(to_doubles(sum(none, {1})) == Values{0, 0});
  REQUIRE(sum(none, {0}).numel() == 0);
  REQUIRE(std::isnan(to_doubles(mean(none, {1}))[0]));
  REQUIRE(std::isnan(to_doubles(var(ones({2, 1}), {1}))[1]));
  REQUIRE(to_doubles(var(ones({2, 1}), {1}, KeepDims::no, 0)) == Values{0, 0});
  REQUIRE(cumsum(none, 1).numel() == 0);
  REQUIRE(amax(none, {0}).numel() == 0);
  REQUIRE_ERROR(amax(none, {1}), "[amax] x [2, 0] has 0 elements to choose from");
  REQUIRE_ERROR(argmin(none, 1), "[argmin] x [2, 0] has 0 elements to choose from");
}

TEST_CASE("reductions refuse dimensions that do not exist", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({2, 3});
  REQUIRE_ERROR(sum(x, {2}), "[sum] dimension 2 of x [2, 3] does not exist");
  REQUIRE_ERROR(mean(x, {-3}), "[mean] dimension -3 of x [2, 3] does not exist");
  REQUIRE_ERROR(amax(x, {1, -1}), "[amax] dimension -1 of x [2, 3] is named twice");
  REQUIRE_ERROR(var(x, {1}, KeepDims::no, -1), "[var] a correction of -1");
  REQUIRE_ERROR(cumsum(x, 2), "[cumsum] dimension 2 of x [2, 3] does not exist");
  REQUIRE_ERROR(argmax(x, 5), "[argmax] dimension 5");
}

}  // namespace accrue::test
