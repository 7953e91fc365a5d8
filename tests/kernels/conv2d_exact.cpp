// Convolutions of whole numbers: every algorithm must compute them exactly.

#include <cmath>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/linear.h"
#include "tests/support/catch.h"
#include "tests/support/convolution.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

// The values as elements of type T.
template <class T>
std::vector<T> elements(const Values& values) {
  std::vector<T> of_type(values.size());
  std::ranges::transform(values, of_type.begin(),
                         [](double v) { return T(static_cast<Wide<T>>(v)); });
  return of_type;
}
template <class T>
Values rounded(const Values& values) {
  const std::vector<T> of_type = elements<T>(values);
  return Values(of_type.begin(), of_type.end());
}

// Sums of small whole numbers are exact in any order, also with 16-bit factors. So every element
// can be compared: an op stores such a sum, rounded once.
template <class T>
void check_exact(const Shape& x_shape, const Shape& w_shape, int64_t stride, int64_t padding,
                 bool transposed) {
  CAPTURE(x_shape, w_shape, stride, padding, transposed, sizeof(T));
  RandomStream random(5);
  const auto draw = [&](const Shape& shape) {
    Values values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = std::floor(random.uniform(-3, 4));
    return values;
  };
  const auto make = [](const Values& values, const Shape& shape) {
    return Tensor::from(elements<T>(values), shape, test_device());
  };
  const Values xs = draw(x_shape), ws = draw(w_shape), bs = draw({w_shape[transposed ? 1 : 0]});
  const Tensor x = require_grad(make(xs, x_shape));
  const Tensor w = require_grad(Tensor::from(elements<Wide<T>>(ws), w_shape, test_device()));
  w.variable()->copy = make(ws, w_shape);
  const Tensor b = make(bs, {static_cast<int64_t>(bs.size())});
  Values dys;
  Tensor y;
  for (int pass = 1; pass <= 2; ++pass) {  // the gradients are written, then added to
    y = transposed ? conv_transpose2d(x, w, b, {.stride = stride, .padding = padding})
                   : conv2d(x, w, b, {.stride = stride, .padding = padding});
    if (pass == 1) dys = draw(y.shape());
    backward(matmul(y.reshape({1, y.numel()}), make(dys, {y.numel(), 1})));
  }
  Values ys(dys.size()), dx(xs.size()), dw(ws.size());
  for_each_product(transposed ? y.shape() : x_shape, w_shape, transposed ? x_shape : y.shape(),
                   stride, padding, 1, [&](size_t pixel, size_t tap, size_t cell) {
                     const size_t in = transposed ? cell : pixel, out = transposed ? pixel : cell;
                     ys[out] += xs[in] * ws[tap];
                     dx[in] += dys[out] * ws[tap];
                     dw[tap] += 2 * dys[out] * xs[in];
                   });
  add_bias(ys, bs, y.shape());
  Values dx_twice = rounded<T>(dx);
  for (size_t i = 0; i < dx.size(); ++i) dx_twice[i] += dx[i];
  REQUIRE(to_doubles(y) == rounded<T>(ys));
  REQUIRE(to_doubles(grad(x)) == rounded<T>(dx_twice));
  REQUIRE(to_doubles(grad(w)) == dw);
}

void check_exact(const Shape& x, const Shape& w, int64_t stride, int64_t padding, bool transposed) {
  check_exact<double>(x, w, stride, padding, transposed);
  if (test_device() != Device::cpu) return;  // elsewhere sums need not be in float32 (cuDNN's bias)
  check_exact<float>(x, w, stride, padding, transposed);
  check_exact<BFloat16>(x, w, stride, padding, transposed);
  check_exact<Half>(x, w, stride, padding, transposed);
}

}  // namespace

// The cpu multiplies the cells of several such images at a time, with channels in slices.
TEST_CASE("convolutions of small images with many channels", "[ops]") {
  check_exact({3, 70, 2, 2}, {140, 70, 3, 3}, 1, 1, false);
  check_exact({7, 37, 8, 8}, {130, 37, 4, 4}, 2, 1, false);
  check_exact({30, 40, 3, 3}, {136, 40, 3, 3}, 1, 1, false);
  check_exact({2, 21, 9, 7}, {100, 21, 5, 5}, 2, 2, false);
  check_exact({5, 66, 2, 2}, {64, 66, 4, 4}, 2, 1, false);  // 12 taps see only padding
  check_exact({3, 64, 2, 3}, {64, 35, 4, 4}, 2, 1, true);
  check_exact({6, 96, 5, 4}, {96, 70, 5, 5}, 2, 2, true);
  check_exact({2, 64, 4, 4}, {64, 70, 2, 2}, 3, 0, true);  // pixels that no tap sees
}

// For 3x3 kernels of stride 1 and many channels, the cpu multiplies at fewer points
// (kernels/cpu/winograd.h). For whole numbers this is exact, because the transforms only halve
// twice.
TEST_CASE("3x3 convolutions with fewer multiplications", "[ops]") {
  check_exact({2, 16, 6, 8}, {32, 16, 3, 3}, 1, 1, false);
  check_exact({3, 35, 7, 5}, {18, 35, 3, 3}, 1, 1, false);    // images of odd size, odd channels
  check_exact({1, 32, 40, 34}, {17, 32, 3, 3}, 1, 0, false);  // in several pieces
  check_exact({2, 20, 7, 7}, {70, 20, 3, 3}, 1, 2, false);
  check_exact({2, 33, 9, 8}, {40, 33, 3, 3}, 1, 3, false);  // some cells see only padding
  check_exact({9, 150, 7, 7}, {140, 150, 3, 3}, 1, 1, false);
  check_exact({2, 24, 8, 7}, {24, 40, 3, 3}, 1, 1, true);
}

// The processor may multiply bfloat16 in pairs of channels and in pairs of cells.
TEST_CASE("convolutions of odd numbers of channels and cells", "[ops]") {
  check_exact({2, 5, 33, 35}, {7, 5, 3, 3}, 1, 1, false);
  check_exact({3, 3, 19, 22}, {5, 3, 5, 4}, 2, 2, false);
  check_exact({2, 1, 17, 9}, {1, 1, 2, 3}, 3, 0, false);
  check_exact({2, 4, 40, 1}, {3, 4, 3, 1}, 1, 0, false);    // one column
  check_exact({3, 35, 1, 1}, {37, 35, 3, 3}, 1, 1, false);  // one pixel
  check_exact({9, 33, 3, 3}, {101, 33, 3, 3}, 1, 1, false);
  check_exact({4, 7, 15, 13}, {7, 5, 4, 4}, 2, 1, true);
  check_exact({2, 3, 5, 31}, {3, 1, 3, 2}, 1, 0, true);
}

}  // namespace accrue::test
