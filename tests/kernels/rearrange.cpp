#include "kernels/rearrange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/autograd.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/pad.h"
#include "kernels/parallel.h"
#include "kernels/pointwise.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/moved_op.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

constexpr int64_t lowest = std::numeric_limits<int64_t>::min();

Op permute_op(const Shape& x, const std::vector<int>& dims) {
  std::vector<int64_t> sizes;
  for (const int d : dims) sizes.push_back(x[d]);
  return moved_op(
      "permute", x, Shape{std::span<const int64_t>(sizes)},
      [=](const Tensor& in) { return permute(in, dims); },
      [=](const Place& i) {
        Place j(i.size());
        for (size_t d = 0; d < i.size(); ++d) {
          const int from = dims[d] < 0 ? dims[d] + x.rank() : dims[d];
          j[static_cast<size_t>(from)] = i[d];
        }
        return j;
      });
}

// Elements first, first + step, ... of a dimension.
Op slice_op(const Shape& x, int dim, int64_t begin, int64_t end, int64_t step, int64_t first,
            int64_t count) {
  return moved_op(
      fmt::format("slice {}:{}:{}", begin, end, step), x, x.with(dim, count),
      [=](const Tensor& in) { return slice(in, dim, begin, end, step); },
      [=](Place i) {
        i[static_cast<size_t>(dim)] = first + step * i[static_cast<size_t>(dim)];
        return i;
      });
}

Op flip_op(const Shape& x, const std::vector<int>& dims) {
  return moved_op(
      "flip", x, x, [=](const Tensor& in) { return flip(in, dims); },
      [=](Place i) {
        for (const int d : dims) i[static_cast<size_t>(d)] = x[d] - 1 - i[static_cast<size_t>(d)];
        return i;
      });
}

Op roll_op(const Shape& x, const std::vector<int64_t>& shifts, const std::vector<int>& dims) {
  return moved_op(
      "roll", x, x, [=](const Tensor& in) { return roll(in, shifts, dims); },
      [=](Place i) {
        for (size_t k = 0; k < dims.size(); ++k) {
          int64_t& at = i[static_cast<size_t>(dims[k])];
          at = ((at - shifts[k]) % x[dims[k]] + x[dims[k]]) % x[dims[k]];
        }
        return i;
      });
}

// The product of what is repeated, for the depth of its sum.
double ratio(const Shape& y, const Shape& x) {
  return std::max(1.0, double(y.numel()) / double(std::max<int64_t>(x.numel(), 1)));
}

Op expand_op(const Shape& x, const Shape& y) {
  return moved_op(
      "expand", x, y, [=](const Tensor& in) { return expand(in, y); },
      [=](const Place& i) {
        Place j(i.end() - x.rank(), i.end());
        for (int d = 0; d < x.rank(); ++d)
          if (x[d] == 1) j[static_cast<size_t>(d)] = 0;
        return j;
      },
      0, ratio(y, x));
}

Op tile_op(const Shape& x, const std::vector<int64_t>& repeats, const Shape& y) {
  return moved_op(
      "tile", x, y, [=](const Tensor& in) { return tile(in, repeats); },
      [=](const Place& i) {
        Place j(i.end() - x.rank(), i.end());
        for (int d = 0; d < x.rank(); ++d) j[static_cast<size_t>(d)] %= x[d];
        return j;
      },
      0, ratio(y, x));
}

Tensor integers(const std::vector<int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape, test_device());
}

std::vector<int32_t> read(const Tensor& x) {
  const Tensor host = on_host(x);
  const auto elements = host.span<int32_t>();
  return {elements.begin(), elements.end()};
}

}  // namespace

TEST_CASE("permute", "[ops]") {
  check_op(permute_op({2, 3}, {1, 0}));
  check_op(permute_op({4, 4}, {1, 0}));
  check_op(permute_op({2, 3, 4}, {2, 0, 1}));
  check_op(permute_op({2, 3, 4}, {0, 2, 1}));
  check_op(permute_op({2, 3, 4}, {1, 0, 2}));
  check_op(permute_op({2, 3, 4}, {-1, 1, 0}));
  check_op(permute_op({2, 3, 4}, {0, 1, 2}));
  check_op(permute_op({3, 1, 4, 1}, {1, 0, 3, 2}));
  check_op(permute_op({2, 3, 0}, {2, 0, 1}));
  check_op(permute_op({1, 1, 1}, {2, 1, 0}));
  check_op(permute_op({5}, {0}));
  check_op(permute_op({}, {}));
}

TEST_CASE("permute of tiles, of heads and of eight dimensions", "[ops]") {
  check_op(permute_op({1, 35, 9}, {0, 2, 1}));  // a tile and a part of one
  check_op(permute_op({3, 33, 2}, {2, 0, 1}));  // a dimension between those that are exchanged
  check_op(permute_op({2, 3, 2, 8}, {0, 2, 1, 3}));
  check_op(permute_op({2, 2, 2, 2, 2, 2, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}));
  check_op(permute_op({2, 1, 2, 3, 1, 2, 2, 2}, {4, 7, 0, 5, 2, 1, 6, 3}));
}

TEST_CASE("transpose", "[ops]") {
  const auto exchanged = [](const Place& i) { return Place{i[2], i[1], i[0]}; };
  check_op(moved_op(
      "transpose", {2, 3, 4}, {4, 3, 2}, [](const Tensor& in) { return transpose(in, 0, -1); },
      exchanged));
  check_op(moved_op(
      "transpose", {2, 3}, {2, 3}, [](const Tensor& in) { return transpose(in, 1, 1); },
      [](const Place& i) { return i; }));
}

TEST_CASE("slice", "[ops]") {
  check_op(slice_op({4, 3, 5}, 0, 1, 3, 1, 1, 2));
  check_op(slice_op({4, 3, 5}, 1, 1, 2, 1, 1, 1));
  check_op(slice_op({4, 3, 5}, 2, 2, 5, 1, 2, 3));
  check_op(slice_op({4, 3, 5}, 2, -4, -1, 1, 1, 3));
  check_op(slice_op({4, 3, 5}, 2, 0, 99, 2, 0, 3));
  check_op(slice_op({5, 3, 2}, 0, 1, 5, 2, 1, 2));
  check_op(slice_op({2, 7, 3}, 1, 1, 6, 3, 1, 2));
  check_op(slice_op({7}, 0, 2, 3, 1, 2, 1));
  check_op(slice_op({4, 1, 3}, 1, 0, 1, 1, 0, 1));
  check_op(slice_op({4, 8}, 1, 4, 8, 1, 4, 4));  // whole vectors
}

TEST_CASE("slice backwards", "[ops]") {
  check_op(slice_op({4, 3, 5}, 2, 4, lowest, -1, 4, 5));
  check_op(slice_op({4, 3, 5}, 2, 3, 0, -2, 3, 2));
  check_op(slice_op({4, 3, 5}, 0, -1, -99, -3, 3, 2));
  check_op(slice_op({4, 3, 5}, 1, 99, -4, -1, 2, 3));
}

TEST_CASE("slice of nothing", "[ops]") {
  check_op(slice_op({4, 3}, 1, 2, 2, 1, 0, 0));
  check_op(slice_op({4, 3}, 0, 3, 1, 1, 0, 0));
  check_op(slice_op({4, 3}, 0, 1, 3, -1, 0, 0));
  check_op(slice_op({2, 0, 3}, 1, 0, 5, 1, 0, 0));
  check_op(slice_op({2, 0, 3}, 2, 0, 2, 1, 0, 2));
}

TEST_CASE("slice of eight dimensions", "[ops]") {
  for (int dim = 0; dim < 8; ++dim)
    check_op(slice_op(Shape{2, 1, 2, 1, 2, 1, 2, 1}.with(dim, 3), dim, 2, lowest, -2, 2, 2));
}

TEST_CASE("split", "[ops]") {
  const Shape x{4, 4, 4};
  for (const int dim : {0, 1, 2})
    // A part is used twice, an empty one and the last one not at all.
    check_op(moved_op(
        fmt::format("split of dimension {}", dim), x, x,
        [=](const Tensor& in) {
          const std::vector<Tensor> parts = split(in, {1, 2, 0, 1}, dim);
          return concat({parts[1], parts[0], parts[0]}, dim);
        },
        [=](Place i) {
          int64_t& at = i[static_cast<size_t>(dim)];
          at = at < 2 ? at + 1 : 0;
          return i;
        },
        0, 2));
  const std::vector<Tensor> parts = split(numbered({3, 2}), {2, 0, 1}, -2);
  REQUIRE(parts.size() == 3);
  REQUIRE(to_doubles(parts[0]) == Values{0, 1, 2, 3});
  REQUIRE(parts[1].shape() == Shape{0, 2});
  REQUIRE(to_doubles(parts[2]) == Values{4, 5});
}

TEST_CASE("stack", "[ops]") {
  for (const int dim : {0, 1, 2, -1})
    check_op({.name = fmt::format("stack along {}", dim),
              .inputs = {{2, 3}, {2, 3}},
              .run =
                  [=](const auto& in) {
                    return stack({in[0], in[1], in[0]}, dim);
                  },
              .reference =
                  [=](const auto& in) {
                    const size_t at = dim < 0 ? 2 : static_cast<size_t>(dim);
                    Shape y = dim == 0 ? Shape{3, 2, 3} : at == 1 ? Shape{2, 3, 3} : Shape{2, 3, 3};
                    Values values;
                    for (Place i : places_of(y)) {
                      const int64_t which = i[at];
                      i.erase(i.begin() + static_cast<std::ptrdiff_t>(at));
                      values.push_back(in[which == 1 ? 1 : 0][number_of({2, 3}, i)]);
                    }
                    return values;
                  },
              .depth = 2});
  REQUIRE(stack({numbered({}), numbered({})}, 0).shape() == Shape{2});
}

TEST_CASE("flip", "[ops]") {
  check_op(flip_op({2, 3, 4}, {0}));
  check_op(flip_op({2, 3, 4}, {1}));
  check_op(flip_op({2, 3, 4}, {2}));
  check_op(flip_op({2, 3, 4}, {2, 0}));
  check_op(flip_op({2, 3, 4}, {0, 1, 2}));
  check_op(flip_op({2, 1, 4}, {1}));
  check_op(flip_op({2, 2, 2, 2, 2, 2, 2, 2}, {1, 4, 7}));
  check_op(flip_op({3, 0}, {0, 1}));
}

TEST_CASE("roll", "[ops]") {
  check_op(roll_op({5}, {2}, {0}));
  check_op(roll_op({2, 3, 4}, {1}, {0}));
  check_op(roll_op({2, 3, 4}, {-1}, {1}));
  check_op(roll_op({2, 3, 4}, {7, -5}, {2, 1}));
  check_op(roll_op({2, 3, 4}, {1, 1, 1}, {0, 1, 2}));
  check_op(roll_op({2, 3, 4}, {1, 2}, {1, 1}));
  check_op(roll_op({2, 3, 4}, {6}, {1}));
  check_op(roll_op({2, 2, 2, 3, 2, 1, 2, 2}, {1, 1, 1}, {0, 3, 7}));
}

TEST_CASE("expand", "[ops]") {
  check_op(expand_op({3, 1}, {3, 4}));
  check_op(expand_op({1, 3}, {4, 3}));
  check_op(expand_op({3}, {2, 5, 3}));
  check_op(expand_op({2, 1, 3, 1}, {2, 4, 3, 2}));
  check_op(expand_op({1, 3, 1}, {2, 3, 4}));
  check_op(expand_op({}, {2, 3}));
  check_op(expand_op({1, 1}, {3, 300}));
  check_op(expand_op({2, 3}, {2, 3}));
  check_op(expand_op({2, 1}, {1, 1, 2, 1}));
  check_op(expand_op({2, 1, 2, 1, 2, 1, 1}, {2, 2, 3, 2, 2, 2, 1, 3}));
  check_op(expand_op({2, 1}, {2, 0}));
}

TEST_CASE("tile", "[ops]") {
  check_op(tile_op({3}, {2}, {6}));
  check_op(tile_op({2, 3}, {2, 1}, {4, 3}));
  check_op(tile_op({2, 3}, {1, 3}, {2, 9}));
  check_op(tile_op({2, 3}, {3, 2}, {6, 6}));
  check_op(tile_op({2, 3}, {2}, {2, 6}));
  check_op(tile_op({2, 3}, {2, 1, 2}, {2, 2, 6}));
  check_op(tile_op({2, 1}, {1, 4}, {2, 4}));
  check_op(tile_op({1, 2, 1, 2, 1, 2, 1, 2}, {2, 2, 1, 2, 2, 2, 1, 2}, {2, 4, 1, 4, 2, 4, 1, 4}));
  check_op(tile_op({2, 3}, {0, 2}, {0, 6}));
}

TEST_CASE("squeeze, unsqueeze and flatten reshape", "[ops]") {
  const Tensor x = require_grad(numbered({2, 1, 3, 1}));
  const auto shares = [&](const Tensor& y, const Shape& shape) {
    REQUIRE(y.shape() == shape);
    REQUIRE(y.view().data == x.view().data);
    REQUIRE(y.variable() == x.variable());
  };
  shares(squeeze(x), {2, 3});
  shares(squeeze(x, 1), {2, 3, 1});
  shares(squeeze(x, -1), {2, 1, 3});
  shares(squeeze(x, 0), {2, 1, 3, 1});
  shares(unsqueeze(x, 0), {1, 2, 1, 3, 1});
  shares(unsqueeze(x, -1), {2, 1, 3, 1, 1});
  shares(unsqueeze(x, -5), {1, 2, 1, 3, 1});
  shares(flatten(x), {6});
  shares(flatten(x, 1), {2, 3});
  shares(flatten(x, 0, 1), {2, 3, 1});
  REQUIRE(flatten(numbered({})).shape() == Shape{1});
}

TEST_CASE("what moves nothing copies nothing", "[ops]") {
  const Tensor x = require_grad(numbered({2, 1, 3}));
  for (const Tensor& y :
       {permute(x, {0, 1, 2}), permute(x, {1, 0, 2}), transpose(x, 1, 2), slice(x, 2, 0, 3),
        slice(x, 1, 0, lowest, -1), slice(x, 1, -1, 5, 4), split(x, {3}, 2)[0], flip(x, {1}),
        flip(x, {}), roll(x, {3, 2}, {2, 0}), expand(x, {2, 1, 3}), expand(x, {1, 2, 1, 3}),
        tile(x, {1, 1}), pad(x, {{0, 0}}), pad(x, {}, Border::wrap)}) {
    REQUIRE(y.view().data == x.view().data);
    REQUIRE(y.variable() == x.variable());
  }
  REQUIRE(permute(x, {1, 0, 2}).shape() == Shape{1, 2, 3});
}

// claim_grad_over() would take dy's buffer for dx, and its shape is the same: then the elements of
// dy move while others are still to be read, or stay where they were.
TEST_CASE("the gradient of a square matrix's transposition goes to a buffer of its own", "[ops]") {
  const Shape square{3, 3};
  const auto exchanged = [](const Place& i) { return Place{i[1], i[0]}; };
  const auto both = [&](const char* name, const std::function<Tensor(const Tensor&)>& run,
                        const std::function<double(double, double)>& formula) {
    Op op = moved_op(name, square, square, run, exchanged);
    op.reference = [=](const auto& in) {
      Values y;
      for (const Place& i : places_of(square))
        y.push_back(formula(in[0][number_of(square, i)], in[0][number_of(square, exchanged(i))]));
      return y;
    };
    op.depth = op.roundings = 4;
    check_op(op);
  };
  both(
      "x + x'", [](const Tensor& x) { return add(x, transpose(x, 0, 1)); },
      [](double a, double b) { return a + b; });
  both(
      "x' + x", [](const Tensor& x) { return add(transpose(x, 0, 1), x); },
      [](double a, double b) { return a + b; });
  both(
      "tanh(x)' * x", [](const Tensor& x) { return mul(transpose(tanh(x), 0, 1), x); },
      [](double a, double b) { return std::tanh(b) * a; });
  both(
      "tanh(2 x')", [](const Tensor& x) { return tanh(scale(transpose(scale(x, 1), 0, 1), 2)); },
      [](double, double b) { return std::tanh(2 * b); });
}

TEST_CASE("a gradient's buffer is taken over only in its own shape", "[ops]") {
  const Tensor leaf = require_grad(numbered({2, 3}));
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{2, 3}}) {
    const Tensor x = scale(leaf, 1);
    const Tensor buffer = Tensor::full(shape, 1, DType::f32, test_device());
    offer_buffer(x, buffer);
    REQUIRE(x.variable()->grad.defined() == (shape == x.shape()));
  }
}

TEST_CASE("a slice's gradient touches its part alone where it is added", "[ops]") {
  const Tensor x = require_grad(numbered({2, 5}));
  const auto run = [&] { backward_of_sum(slice(x, 1, 3, 0, -2)); };
  run();
  grad(x).fill(std::nan(""));
  zero_grad(x);
  run();
  REQUIRE(to_doubles(grad(x)) == Values{0, 1, 0, 1, 0, 0, 1, 0, 1, 0});
  grad(x).fill(9);
  run();
  REQUIRE(to_doubles(grad(x)) == Values{9, 10, 9, 10, 9, 9, 10, 9, 10, 9});
}

TEST_CASE("a block that transposes several tiles keeps them apart", "[ops]") {
  const Shape matrices{700, 9, 9};
  const Tensor x = numbered(matrices);
  for (int order = 0; order < thread_orders(); ++order) {
    set_thread_order(order);
    const Values y = to_doubles(transpose(x, 1, 2));
    size_t n = 0;
    for (const Place& i : places_of(matrices))
      n += y[number_of(matrices, {i[0], i[2], i[1]})] == double(number_of(matrices, i)) ? 1 : 0;
    REQUIRE(n == y.size());
  }
}

TEST_CASE("integers are moved, and have no gradient", "[ops]") {
  const Tensor x = integers({1, 2, 3, 4, 5, 6}, {2, 3});
  REQUIRE(read(transpose(x, 0, 1)) == std::vector<int32_t>{1, 4, 2, 5, 3, 6});
  REQUIRE(read(slice(x, 1, -1, lowest, -2)) == std::vector<int32_t>{3, 1, 6, 4});
  REQUIRE(read(expand(slice(x, 1, 0, 1), {2, 2})) == std::vector<int32_t>{1, 1, 4, 4});
  REQUIRE(read(pad(slice(x, 0, 1, 2), {{1, 1}}, -7)) == std::vector<int32_t>{-7, 4, 5, 6, -7});
  REQUIRE(read(pad(slice(x, 0, 1, 2), {{1, 1}}, Border::reflect)) ==
          std::vector<int32_t>{5, 4, 5, 6, 5});
  const Tensor bytes =
      Tensor::from(std::vector<uint8_t>{1, 2, 3, 250}, {2, 2}, test_device(), Category::data);
  const Tensor host = on_host(pad(flip(bytes, {0, 1}), {{0, 0}, {1, 0}}, 255));
  const auto moved = host.span<uint8_t>();
  REQUIRE(std::vector<int>(moved.begin(), moved.end()) == std::vector<int>{255, 250, 3, 255, 2, 1});
}

TEST_CASE("a moved NaN keeps its bits, and a minus zero its sign", "[ops]") {
  const Tensor x = tensor_with({-0.0, std::nan(""), 1, 2}, {2, 2}, DType::bf16);
  const Values y = to_doubles(transpose(x, 0, 1));
  REQUIRE(std::signbit(y[0]));
  REQUIRE(std::isnan(y[2]));
}

TEST_CASE("large tensors are moved in parts, to the same bits by any number of threads", "[ops]") {
  if (reduced()) return;
  const Tensor x =
      require_grad(tensor_with(random_values({3, 70, 90, 11}, 1), {3, 70, 90, 11}, DType::f32));
  const auto run = [&](int threads, const std::function<Tensor(const Tensor&)>& op) {
    const ThreadScope scope(threads);
    zero_grad(x);
    const Tensor y = op(x);
    backward_from(y, random_values(y.shape(), 2));
    return std::pair(to_doubles(y), to_doubles(grad(x)));
  };
  const std::vector<std::function<Tensor(const Tensor&)>> ops{
      [](const Tensor& in) {
        return permute(in, {0, 3, 2, 1});
      },
      [](const Tensor& in) {
        return permute(in, {2, 0, 1, 3});
      },
      [](const Tensor& in) {
        return flip(in, {0, 1, 2, 3});
      },
      [](const Tensor& in) {
        return roll(in, {1, 45, 5}, {0, 2, 3});
      },
      [](const Tensor& in) { return slice(in, 2, 80, 3, -7); },
      [](const Tensor& in) { return slice(in, 3, 1, 10); },
      [](const Tensor& in) {
        return tile(in, {2, 1, 3, 1});
      },
      [](const Tensor& in) {
        return expand(in.reshape({3, 70, 1, 990}), {3, 70, 5, 990});
      },
      [](const Tensor& in) {
        return expand(in.reshape({3, 70, 990, 1}), {3, 70, 990, 7});
      },
      [](const Tensor& in) {
        return pad(in, {{1, 2}, {0, 0}, {3, 0}});
      },
      [](const Tensor& in) {
        return pad(in, {{30, 2}, {5, 0}, {3, 9}}, Border::reflect);
      }};
  for (const auto& op : ops) {
    const auto one = run(1, op);
    for (const int threads : {2, 3}) REQUIRE(run(threads, op) == one);
    // <dy, A x> = <A' dy, x>
    const Values dy = random_values({static_cast<int64_t>(one.first.size())}, 2);
    const Values values = to_doubles(x);
    const double forth = std::inner_product(dy.begin(), dy.end(), one.first.begin(), 0.0),
                 back = std::inner_product(values.begin(), values.end(), one.second.begin(), 0.0);
    REQUIRE(forth == Approx(back).margin(0.01));
  }
}

TEST_CASE("ops that move elements refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({2, 3, 4});
  REQUIRE_ERROR(permute(Tensor(), {0}), "[permute] x is undefined");
  REQUIRE_ERROR(permute(x, {0, 1}),
                "[permute] x [2, 3, 4] by (0, 1): expected each dimension once");
  REQUIRE_ERROR(permute(x, {0, 1, -2}), "[permute] dimension -2 of [2, 3, 4] is named twice");
  REQUIRE_ERROR(permute(x, {0, 1, 3}), "[permute] dimension 3 of shape [2, 3, 4] does not exist");
  REQUIRE_ERROR(transpose(x, 0, 3), "[transpose] dimension 3");
  REQUIRE_ERROR(slice(x, 1, 0, 2, 0), "[slice] of [2, 3, 4] by step 0");
  REQUIRE_ERROR(slice(ones({}), 0, 0, 1), "[slice] dimension 0 of shape [] does not exist");
  REQUIRE_ERROR(split(x, {1, 1}, 1), "[split] dimension 1 of [2, 3, 4] into (1, 1)");
  REQUIRE_ERROR(split(x, {4, -1}, 1), "expected sizes that add up to 3");
  REQUIRE_ERROR(stack({}, 0), "[stack] there is no tensor");
  REQUIRE_ERROR(stack({x, ones({2, 3})}, 0), "[stack] tensor 1 is [2, 3], tensor 0 is [2, 3, 4]");
  REQUIRE_ERROR(stack({x}, 4), "[stack] dimension 4 among 4");
  REQUIRE_ERROR(roll(x, {1}, {0, 1}), "[roll] 1 shift of 2 dimensions");
  REQUIRE_ERROR(flip(x, {1, 1}), "[flip] dimension 1 of [2, 3, 4] is named twice");
  REQUIRE_ERROR(expand(x, {3, 4}), "[expand] x [2, 3, 4] to [3, 4]");
  REQUIRE_ERROR(expand(x, {2, 6, 4}), "[expand] x [2, 3, 4] to [2, 6, 4]");
  REQUIRE_ERROR(tile(x, {2, -1}), "[tile] x [2, 3, 4] by (2, -1)");
  REQUIRE_ERROR(tile(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}), "at most 8 dimensions");
  REQUIRE_ERROR(unsqueeze(x, 4), "[unsqueeze] dimension 4 among 4");
  REQUIRE_ERROR(unsqueeze(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0), "at most 8 dimensions, got 9");
  REQUIRE_ERROR(squeeze(x, 3), "[squeeze] dimension 3");
  REQUIRE_ERROR(flatten(x, 2, 1), "[flatten] dimensions 2 to 1 of [2, 3, 4]");
}

}  // namespace accrue::test
