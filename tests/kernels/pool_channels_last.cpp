#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/autograd.h"
#include "core/kernel_trace.h"
#include "kernels/pool.h"
#include "kernels/rearrange.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/pools.h"

namespace accrue::test {
namespace pools_of_channels_last {
namespace {

// Whole vectors of 16 bytes in all types, in some, and in none.
const std::vector<int64_t> channel_counts{1, 3, 4, 8, 12, 16, 64};

Pool2dShape last(Pool2dShape s) {
  s.channels = Channels::last;
  return s;
}

Pool2dShape dilated(Pool2dShape s, PerAxis dilation) {
  s.dilation = dilation;
  return s;
}

// NaN compares as one value.
Values comparable(const Tensor& x) {
  Values values = to_doubles(x);
  for (double& v : values)
    if (std::isnan(v)) v = std::numeric_limits<double>::max();
  return values;
}

using PoolOp = std::function<Tensor(const Tensor& x, Channels channels)>;

// y and dx of a pool of x [N, C, H, W], both with channels first.
std::pair<Values, Values> pooled(const Tensor& x, Channels channels, const PoolOp& op) {
  const bool is_last = channels == Channels::last;
  const auto first = [&](const Tensor& t) {
    return comparable(is_last ? detail::channels_first(t) : t);
  };
  const Tensor leaf = require_grad(is_last ? detail::channels_last(x) : x.reshape(x.shape()));
  const Tensor y = op(leaf, channels);
  const Shape windows = is_last ? Shape{y.size(0), y.size(3), y.size(1), y.size(2)} : y.shape();
  const Values dy = random_values(windows, 5);
  backward_from(y, is_last ? transposed(dy, windows[1], windows.numel(2, 4)) : dy);
  return {first(y), first(grad(leaf))};
}

// Images of which many pixels are equal, and some NaN.
Tensor images(const Shape& shape, DType dtype) {
  Values values = random_values(shape, 3);
  for (double& v : values) v = std::round(4 * v) / 4;
  for (size_t i = 5; i < values.size(); i += 31)
    values[i] = std::numeric_limits<double>::quiet_NaN();
  return tensor_with(values, shape, dtype);
}

void check_same_maxima(const Tensor& x, Pool2dShape s, Activation activation) {
  INFO(name(x.dtype()) << " " << to_string(x.shape()) << ", kernel " << s.kernel.h << ", stride "
                       << s.stride.h << ", " << name(activation));
  const PoolOp op = [&](const Tensor& of, Channels channels) {
    Pool2dShape shape = s;
    shape.channels = channels;
    return max_pool2d(of, shape, activation);
  };
  const auto [y, dx] = pooled(x, Channels::first, op);
  const auto [y_of_last, dx_of_last] = pooled(x, Channels::last, op);
  REQUIRE(y_of_last == y);
  REQUIRE(dx_of_last == dx);
}

// The kernels that a training step of the op launches on a device, by name.
std::map<std::string, int> kernels_of(Device device, const std::function<Tensor(Tensor)>& op) {
  struct Names : KernelTrace {
    void add(const KernelCall& call) override { ++calls[std::string(call.name())]; }
    std::map<std::string, int> calls;
  } names;
  backward_of_sum(op(require_grad(Tensor::full({2, 5, 4, 3}, 1, DType::f32, device))));
  return names.calls;
}

}  // namespace

TEST_CASE("pools with channels last", "[ops]") {
  for (const int64_t C : channel_counts) {
    check_op(max_pool2d_op("max 2x2", {2, C, 2, 4}, last({2})));
    check_op(max_pool2d_op("max 3x3 stride 2, padded, odd", {1, C, 3, 5}, last({3, 2, 1})));
    check_op(global_avg_pool2d_op("global average", {2, C, 2, 3}, Channels::last));
  }
  for (const int64_t C : {3, 4}) {
    check_op(max_pool2d_op("max 2x2, last row and column left out", {2, C, 5, 7}, last({2})));
    check_op(max_pool2d_op("max 2x2 stride 3, pixels left out", {1, C, 8, 8}, last({2, 3})));
    check_op(max_pool2d_op("max 3x2 stride 2x1", {2, C, 7, 5}, last({{3, 2}, {2, 1}})));
    for (const Activation activation : {Activation::none, Activation::relu}) {
      const auto check_max = [&](std::string name, const Shape& x, Pool2dShape s) {
        check_op(max_pool2d_op("max " + name, x, last(s), activation));
      };
      check_max("3x3 stride 2, padded", {2, C, 6, 4}, {3, 2, 1});
      check_max("3x3, padded on all sides", {1, C, 1, 2}, {3, 2, 1});
      check_max("2x2, ceil", {2, C, 5, 3}, {2, 2, 0, true});
      check_max("3x3 stride 2, padded, ceil", {1, C, 6, 5}, {3, 2, 1, true});
      check_max("3x2 stride 4x3, ceil", {1, C, 9, 5}, {{3, 2}, {4, 3}, 0, true});
      check_max("3x2 stride 1, dilated", {1, C, 7, 6}, dilated({{3, 2}, 1}, {2, 3}));
      check_max("3x3 stride 2, padded, ceil, dilated", {1, C, 7, 8},
                dilated({3, 2, 1, true}, {3, 2}));
    }
    check_op(avg_pool2d_op("avg 2x2", {2, C, 4, 6}, last({2})));
    check_op(avg_pool2d_op("avg 3x3 stride 2, padded, ceil", {1, C, 6, 5},
                           last({3, 2, 1, true, false})));
  }
  // Longer than a run of the sum.
  check_op(global_avg_pool2d_op("global average, long", {1, 2, 3, 171}, Channels::last));
}

TEST_CASE("max_pool2d gives the same bits with channels first and last", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const int64_t C : channel_counts)
      for (const Activation activation : {Activation::none, Activation::relu})
        for (const Pool2dShape& s : {Pool2dShape{2}, Pool2dShape{3, 2, 1}, Pool2dShape{3, 1, 1},
                                     dilated({3, 2, 1, true}, 2)})
          check_same_maxima(images({2, C, 7, 6}, dtype), s, activation);
}

// Here the runner's threads take several vectors each.
TEST_CASE("pools of large images are the same with channels first and last", "[ops]") {
  for (const int64_t C : {5, 12}) {
    const Shape shape{3, C, 51, 53};
    const Tensor x = images(shape, DType::f32);
    check_same_maxima(x, {2}, Activation::none);
    check_same_maxima(x, {3, 2, 1}, Activation::relu);
    const Tensor finite = tensor_with(random_values(shape, 4), shape, DType::f32);
    const auto [y, dx] = pooled(finite, Channels::first, global_avg_pool2d);
    const auto [y_of_last, dx_of_last] = pooled(finite, Channels::last, global_avg_pool2d);
    // float32 adds runs of at most 256 terms, and double adds the runs.
    REQUIRE(largest_difference(y_of_last, y) <= 256 * 0x1p-24);
    REQUIRE(dx_of_last == dx);
  }
}

TEST_CASE("max_pool2d with channels last has a winner for each channel", "[ops]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Two by two pixels of four channels.
  const Tensor x = require_grad(
      Tensor::from(std::vector<float>{1, -1, nan, 0, 1, -2, 9, 2, 0, -3, 9, 3, 1, -1, 9, 1},
                   {1, 2, 2, 4}, test_device()));
  const Tensor y = max_pool2d(x, last({2}));
  const Values values = to_doubles(y);
  REQUIRE(values[0] == 1);
  REQUIRE(values[1] == -1);
  REQUIRE(std::isnan(values[2]));
  REQUIRE(values[3] == 3);
  backward_from(y, {5, 6, 7, 8});
  REQUIRE(to_doubles(grad(x)) == Values{5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0});
}

TEST_CASE("pools refuse images with channels last, or have none, as with channels first", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(max_pool2d(ones({2, 3, 5}), last({2})), "x [2, 3, 5]: expected x [N, H, W, C]");
  REQUIRE_ERROR(max_pool2d(ones({1, 2, 3, 8}), last({3})),
                "kernel 3, stride 3, padding 0 with x "
                "[1, 2, 3, 8]");
  REQUIRE_ERROR(max_pool2d(ones({1, 0, 3, 8}), last({1})), "x [1, 0, 3, 8]");
  REQUIRE_ERROR(avg_pool2d(ones({1, 2, 3, 8}), last({3})), "x [1, 2, 3, 8]");
  REQUIRE_ERROR(avg_pool2d(ones({2, 3, 5}), last({2})), "x [2, 3, 5]: expected x [N, H, W, C]");
  REQUIRE_ERROR(global_avg_pool2d(ones({2, 3, 0, 5}), Channels::last),
                "x [2, 3, 0, 5]: expected x [N, H, W, C], H and W above 0");
  REQUIRE_ERROR(global_avg_pool2d(ones({2, 3, 5}), Channels::last), "expected x [N, H, W, C]");
  for (const auto& [N, C] : {std::pair{0, 4}, std::pair{0, 3}, std::pair{2, 0}}) {
    const Tensor x = require_grad(ones({N, 4, 6, C}));
    const Tensor pooled = max_pool2d(x, last({2})), means = global_avg_pool2d(x, Channels::last),
                 averages = avg_pool2d(x, last({2}));
    REQUIRE(pooled.shape() == Shape{N, 2, 3, C});
    REQUIRE(averages.shape() == Shape{N, 2, 3, C});
    REQUIRE(means.shape() == Shape{N, 1, 1, C});
    for (const Tensor& y : {pooled, averages, means}) backward_of_sum(y);
    REQUIRE(grad(x).shape() == x.shape());
  }
}

TEST_CASE("max_pool2d with channels last keeps one byte per output", "[ops]") {
  for (const Device device : {Device::meta, Device::meta_cuda}) {
    const Tensor x = require_grad(Tensor::full({4, 16, 16, 8}, 1, DType::f32, device));
    const size_t before = ledger(device).current().total();
    const Tensor y = max_pool2d(x, last({2}));
    REQUIRE(ledger(device).current().total() - before ==
            y.bytes() + static_cast<size_t>(y.numel()));
  }
}

TEST_CASE("pools permute images with channels last where they have no kernel", "[ops]") {
  const auto max = [](const Tensor& x) { return max_pool2d(x, last({2})); };
  const auto global = [](const Tensor& x) { return global_avg_pool2d(x, Channels::last); };
  using Kernels = std::map<std::string, int>;
  REQUIRE(kernels_of(Device::meta_cuda, max) ==
          Kernels{{"max_pool2d", 1}, {"max_pool2d_backward", 1}});
  REQUIRE(kernels_of(Device::meta_cuda, global) ==
          Kernels{{"global_avg_pool2d", 1}, {"global_avg_pool2d_backward", 1}});
  REQUIRE(kernels_of(Device::meta, max) ==
          Kernels{{"copy_strided", 4}, {"max_pool2d", 1}, {"max_pool2d_backward", 1}});
}

}  // namespace pools_of_channels_last
}  // namespace accrue::test
