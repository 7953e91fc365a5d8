#include "kernels/gather.h"

#include <cmath>

#include "core/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor index_with(const std::vector<int32_t>& values, const Shape& shape, const Tensor& like) {
  return Tensor::from(values, shape, like.device());
}

// How often the most frequent number comes, at most.
double depth_of(const std::vector<int32_t>& index) { return double(index.size()) + 1; }

// x [O, V, I] along its dimension 1, whatever x's shape is.
Op index_select_op(const Shape& x, int dim, const std::vector<int32_t>& index) {
  const auto O = static_cast<size_t>(x.numel(0, dim)), V = static_cast<size_t>(x[dim]),
             I = static_cast<size_t>(x.numel(dim + 1, x.rank()));
  return {.name = fmt::format("index_select of {} in dimension {}", x, dim),
          .inputs = {x},
          .run =
              [=](const auto& in) {
                return index_select(in[0], dim - x.rank(), indices(index, in[0]));
              },
          .reference =
              [=](const auto& in) {
                Values y;
                for (size_t o = 0; o < O; ++o)
                  for (const int32_t v : index)
                    for (size_t i = 0; i < I; ++i)
                      y.push_back(in[0][(o * V + static_cast<size_t>(v)) * I + i]);
                return y;
              },
          .depth = depth_of(index)};
}

// Up to three dimensions; the index's sizes outside of `dim` may be smaller than x's.
Op gather_op(const Shape& x, int dim, const std::vector<int32_t>& index, const Shape& shape) {
  return {
      .name = fmt::format("gather of {} in dimension {} by {}", x, dim, shape),
      .inputs = {x},
      .run = [=](const auto& in) { return gather(in[0], dim, index_with(index, shape, in[0])); },
      .reference =
          [=](const auto& in) {
            Values y;
            for (int64_t n = 0; n < shape.numel(); ++n) {
              int64_t from = 0, stride = 1, rest = n;
              for (int d = shape.rank() - 1; d >= 0; --d) {
                const int64_t i = d == dim ? index[static_cast<size_t>(n)] : rest % shape[d];
                from += i * stride;
                stride *= x[d];
                rest /= shape[d];
              }
              y.push_back(in[0][static_cast<size_t>(from)]);
            }
            return y;
          },
      .depth = depth_of(index)};
}

}  // namespace

TEST_CASE("index_select", "[ops]") {
  check_op(index_select_op({4, 3, 5}, 0, {3, 0, 3, 3, 1}));
  check_op(index_select_op({2, 4, 5}, 1, {3, 0, 3, 3, 1, 0}));
  check_op(index_select_op({2, 3, 4}, 2, {1, 1, 3}));
  check_op(index_select_op({6}, 0, {5, 5, 0}));
  check_op(index_select_op({9, 20}, 0, {8, 0, 8, 3}));  // a part of a tile, and vectors
  check_op(index_select_op({2, 1, 40}, 1, {0, 0, 0}));
  check_op(index_select_op({2, 3, 4}, 1, {}));
  check_op(index_select_op({2, 3, 0}, 1, {2, 2}));
  check_op(index_select_op({2, 1, 1, 3, 1, 2, 1, 2}, 3, {2, 0, 2}));
}

TEST_CASE("gather", "[ops]") {
  check_op(gather_op({4, 5}, 1, {0, 4, 4, 1, 1, 1, 0, 3}, {4, 2}));
  check_op(gather_op({4, 5}, 0, {0, 3, 3, 1, 1, 0, 0, 2, 2, 2}, {2, 5}));
  check_op(gather_op({2, 3, 4}, 1, {2, 2, 0, 1, 0, 2, 0, 1, 1, 1, 1, 0, 2, 0, 2, 1}, {2, 2, 4}));
  check_op(gather_op({5}, 0, {4, 4, 0, 4, 1, 1, 2}, {7}));
  check_op(gather_op({3, 4}, 1, {3, 0, 1}, {3, 1}));
  check_op(gather_op({3, 2, 4}, 1, {1, 0, 0, 0, 1, 1}, {2, 1, 3}));  // smaller elsewhere
  check_op(gather_op({3, 4}, 0, {2, 0, 0, 1, 1, 0}, {3, 2}));
  check_op(gather_op({3, 4}, 1, {}, {3, 0}));
  check_op(gather_op({3, 0}, 0, {}, {2, 0}));
}

TEST_CASE("repeated picks are added in their order", "[ops]") {
  // In float32, 1e8 - 1e8 + 1 is 1, and 1 - 1e8 + 1e8 is 0.
  const Tensor x = require_grad(ones({1, 3}));
  const Tensor y = gather(x, 1, index_with({1, 1, 1, 0}, {1, 4}, x));
  backward_from(y, {1e8, -1e8, 1, 2});
  REQUIRE(to_doubles(grad(x)) == Values{2, 1, 0});
  const Tensor w = require_grad(ones({3, 1}));
  backward_from(index_select(w, 0, indices({1, 1, 1, 0}, w)), {1e8, -1e8, 1, 2});
  REQUIRE(to_doubles(grad(w)) == Values{2, 1, 0});
}

TEST_CASE("gradients of gather are 0 where nothing was picked, and left alone when added",
          "[ops]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = require_grad(tensor_with(Values(8), {2, 4}, dtype));
    const auto run = [&] {
      backward_of_sum(gather(x, 1, index_with({1, 1, 3, 0}, {2, 2}, x)));
      return to_doubles(grad(x));
    };
    const Values picks{0, 2, 0, 0, 1, 0, 0, 1};
    REQUIRE(run() == picks);
    grad(x).fill(std::nan(""));
    zero_grad(x);
    REQUIRE(run() == picks);
    grad(x).fill(9);
    REQUIRE(run() == Values{9, 11, 9, 9, 10, 9, 9, 10});
  }
}

TEST_CASE("an index out of range is refused, and gives NaN where no kernel can throw", "[ops]") {
  const Tensor x = require_grad(ones({2, 3}));
  for (const int32_t bad : {3, -1}) {
    const auto select = [&] { return index_select(x, 1, indices({0, bad}, x)); };
    const auto pick = [&] { return gather(x, 1, index_with({0, bad, 2, 2}, {2, 2}, x)); };
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(select(),
                    fmt::format("[index_select] index {} at position 1 is outside [0, 3)", bad));
      REQUIRE_ERROR(pick(), fmt::format("[gather] index {} at position 1 is outside [0, 3)", bad));
      continue;
    }
    const auto check_nan = [&](const Tensor& y, size_t first, size_t second, const Values& wanted) {
      const Values values = to_doubles(y);
      for (size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::isnan(values[i]) == (i == first || i == second));
      zero_grad(x);
      backward_of_sum(y);
      REQUIRE(to_doubles(grad(x)) == wanted);
    };
    check_nan(select(), 1, 3, {1, 0, 0, 1, 0, 0});
    check_nan(pick(), 1, 1, {1, 0, 0, 0, 0, 2});
  }
}

TEST_CASE("gather and index_select refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({2, 3});
  REQUIRE_ERROR(index_select(x, 2, indices({0}, x)), "[index_select] dimension 2 of shape [2, 3]");
  REQUIRE_ERROR(index_select(x, 1, index_with({0}, {1, 1}, x)), "[index_select] index [1, 1]");
  REQUIRE_ERROR(index_select(x, 1, ones({2})), "index f32 [2]: expected an i32 index");
  REQUIRE_ERROR(index_select(x, 1, Tensor()), "expected an i32 index");
  REQUIRE_ERROR(gather(x, 1, indices({0}, x)), "[gather] x [2, 3] and index [1] in dimension 1");
  REQUIRE_ERROR(gather(x, 1, index_with({0, 0, 0}, {3, 1}, x)), "no larger in other dimensions");
  REQUIRE_ERROR(gather(x, -3, index_with({0}, {1, 1}, x)), "[gather] dimension -3");
  REQUIRE_ERROR(gather(x, 0, ones({1, 1})), "expected an i32 index");
  REQUIRE_ERROR(gather(indices({1}, x), 0, indices({0}, x)), "expected a floating dtype");
}

}  // namespace accrue::test
