#include "kernels/resize.h"

#include <cmath>

#include "core/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

using Taps = std::vector<std::pair<int64_t, double>>;

// The pixels that pixel o of a line of `out` reads of one of `in`; factor 0 is that of the sizes.
Taps taps(int64_t o, int64_t in, int64_t out, ResizeMode mode, Coordinates coordinates,
          double factor) {
  const double n = static_cast<double>(in), step = factor > 0 ? 1 / factor : n / double(out);
  if (mode == ResizeMode::nearest || mode == ResizeMode::nearest_exact) {
    const float shift = mode == ResizeMode::nearest ? 0 : 0.5f;
    const float p = (float(o) + shift) * float(step);
    return {{std::min(static_cast<int64_t>(p), in - 1), 1}};
  }
  double p = coordinates == Coordinates::half_pixel ? (double(o) + 0.5) * step - 0.5
             : out == 1                             ? 0
                                                    : double(o) * double(in - 1) / double(out - 1);
  Taps all;
  if (mode == ResizeMode::bilinear) {
    p = std::clamp(p, 0.0, n - 1);
    // The hat of each pixel.
    for (int64_t i = 0; i < in; ++i)
      if (const double d = std::abs(p - double(i)); d < 1) all.emplace_back(i, 1 - d);
    return all;
  }
  constexpr double a = -0.75;
  for (int64_t i = -3; i < in + 3; ++i) {
    const double d = std::abs(p - double(i));
    const double w = d < 1   ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                     : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4)
                             : 0;
    if (w != 0) all.emplace_back(std::clamp<int64_t>(i, 0, in - 1), w);
  }
  return all;
}

struct Resizing {
  ResizeMode mode;
  Coordinates coordinates = Coordinates::half_pixel;
  double rows = 0, columns = 0;  // factors, or 0
};

// `most` pixels of y at most read one of x.
Op resize_op(const Shape& x, int64_t H, int64_t W, const Resizing& by, double most) {
  return {
      .name = fmt::format("{} of {} to {} x {}{}", name(by.mode), x, H, W,
                          by.coordinates == Coordinates::align_corners ? ", corners" : ""),
      .inputs = {x},
      .run =
          [=](const auto& in) {
            if (by.rows > 0) return resize_by(in[0], by.rows, by.columns, by.mode, by.coordinates);
            return resize(in[0], H, W, by.mode, by.coordinates);
          },
      .reference =
          [=](const auto& in) {
            Values y;
            for (int64_t plane = 0; plane < x.numel(0, 2); ++plane)
              for (int64_t h = 0; h < H; ++h)
                for (int64_t w = 0; w < W; ++w) {
                  double sum = 0;
                  for (const auto& [i, a] : taps(h, x[2], H, by.mode, by.coordinates, by.rows))
                    for (const auto& [j, b] : taps(w, x[3], W, by.mode, by.coordinates, by.columns))
                      sum += a * b * in[0][static_cast<size_t>((plane * x[2] + i) * x[3] + j)];
                  y.push_back(sum);
                }
            return y;
          },
      .depth = 3 * most + 8};
}

}  // namespace

TEST_CASE("resize", "[ops]") {
  using enum ResizeMode;
  const auto mode = GENERATE(nearest, nearest_exact, bilinear, bicubic);
  const auto coordinates = GENERATE(Coordinates::half_pixel, Coordinates::align_corners);
  if (mode <= nearest_exact && coordinates == Coordinates::align_corners) return;
  const Resizing by{mode, coordinates};
  check_op(resize_op({2, 3, 3, 4}, 6, 8, by, 36));
  check_op(resize_op({1, 2, 5, 7}, 3, 4, by, 16));
  check_op(resize_op({1, 2, 2, 7}, 5, 3, by, 32));  // growing one way and shrinking the other
  check_op(resize_op({1, 2, 4, 6}, 1, 1, by, 16));
  check_op(resize_op({2, 1, 1, 1}, 3, 5, by, 60));
  check_op(resize_op({1, 1, 3, 4}, 3, 9, by, 36));  // one side stays
}

TEST_CASE("resize of no samples", "[ops]") {
  const Tensor y = resize(ones({0, 3, 4, 4}), 8, 8, ResizeMode::bilinear);
  REQUIRE(y.shape() == Shape{0, 3, 8, 8});
}

TEST_CASE("resize of lines longer than the CPU blends at once", "[ops]") {
  using enum ResizeMode;
  const auto mode = GENERATE(nearest, bilinear, bicubic);
  check_op(resize_op({1, 1, 1, 1100}, 2, 30, {mode}, 8));
  check_op(resize_op({1, 1, 1, 30}, 1, 1100, {mode}, 80));
  // Each pixel of x is read by more of y's. In 16 bits the roundings of 2100 elements would
  // hide what is wrong.
  Op op = resize_op({1, 1, 1, 2}, 1, 2100, {mode}, 2100);
  op.in_16_bits = false;
  check_op(op);
}

TEST_CASE("resize_by", "[ops]") {
  using enum ResizeMode;
  const auto mode = GENERATE(nearest, nearest_exact, bilinear, bicubic);
  check_op(resize_op({1, 2, 5, 5}, 7, 8, {mode, Coordinates::half_pixel, 1.5, 1.7}, 36));
  check_op(resize_op({1, 2, 5, 7}, 2, 8, {mode, Coordinates::half_pixel, 0.45, 1.2}, 36));
}

// From PyTorch's interpolate of arange(12).view(1, 1, 3, 4) ** 1.5, in float64.
TEST_CASE("resize gives PyTorch's numbers", "[ops]") {
  struct Case {
    ResizeMode mode;
    Coordinates coordinates;
    Values y;
  };
  Values x;
  for (int i = 0; i < 12; ++i) x.push_back(std::pow(i, 1.5));
  const std::vector<Case> cases{
      {ResizeMode::nearest,
       Coordinates::half_pixel,
       {0, 1, 2.828427124746, 0, 1, 2.828427124746, 8, 11.1803398875, 14.6969384567, 8,
        11.1803398875, 14.6969384567, 22.62741699797, 27, 31.62277660168}},
      {ResizeMode::nearest_exact,
       Coordinates::half_pixel,
       {0, 2.828427124746, 5.196152422707, 0, 2.828427124746, 5.196152422707, 8, 14.6969384567,
        18.52025917745, 22.62741699797, 31.62277660168, 36.48287269391, 22.62741699797,
        31.62277660168, 36.48287269391}},
      {ResizeMode::bilinear,
       Coordinates::half_pixel,
       {0.1666666666667, 1.914213562373, 4.801531539713, 3.512022659167, 6.323983806263,
        10.03413454676, 8.530056647916, 12.9386391721, 17.88303905733, 17.42573115815,
        22.76228864934, 28.55692963005, 23.35618083164, 29.31138830084, 35.67285667854}},
      {ResizeMode::bilinear,
       Coordinates::align_corners,
       {0, 1.914213562373, 5.196152422707, 4, 7.426426367236, 11.85820580008, 8, 12.9386391721,
        18.52025917745, 15.31370849898, 21.12501373647, 27.50156593568, 22.62741699797,
        29.31138830084, 36.48287269391}},
      {ResizeMode::bicubic,
       Coordinates::half_pixel,
       {-0.6834516273287, 0.7211217569733, 3.626210524896, 2.261704765195, 4.909941687631,
        8.704176002528, 8.395385610546, 12.87835971898, 18.03259391028, 18.03675032313,
        23.70605281657, 29.8928078351, 24.59352195674, 30.83886707468, 37.57758550808}},
      {ResizeMode::bicubic,
       Coordinates::align_corners,
       {0, 1.785989315689, 5.196152422707, 2.62867965644, 5.795862870805, 10.17421078291, 8,
        12.87835971898, 18.52025917745, 16.06370849898, 22.11193155912, 28.75070094394,
        22.62741699797, 29.26568394864, 36.48287269391}},
  };
  for (const auto& [mode, coordinates, expected] : cases) {
    const Values y =
        to_doubles(resize(tensor_with(x, {1, 1, 3, 4}, DType::f64), 5, 3, mode, coordinates));
    for (size_t i = 0; i < y.size(); ++i) {
      INFO(name(mode) << " at " << i << ": " << y[i] << ", expected " << expected[i]);
      REQUIRE(std::abs(y[i] - expected[i]) <= 1e-11);
    }
  }
}

// The op table has no such target.
TEST_CASE("resize adds to gradients in 16 bits", "[ops]") {
  const auto dtype = GENERATE(DType::f16, DType::bf16);
  const Tensor x = require_grad(tensor_with(Values(12, 1), {1, 1, 3, 4}, dtype));
  for (double sum : {1, 2, 3}) {
    backward_of_sum(resize(x, 6, 8, ResizeMode::bilinear));
    for (const double g : to_doubles(grad(x))) REQUIRE(g == 4 * sum);
  }
}

TEST_CASE("resize to the same size is no op", "[ops]") {
  const Tensor x = ones({2, 1, 3, 4});
  for (const Coordinates coordinates : {Coordinates::half_pixel, Coordinates::align_corners})
    REQUIRE(resize(x, 3, 4, ResizeMode::bicubic, coordinates).view().data == x.view().data);
  REQUIRE(resize_by(x, 1, 1, ResizeMode::nearest).view().data == x.view().data);
  // The same size, but other places.
  REQUIRE(resize_by(x, 1.1, 1, ResizeMode::bicubic).view().data != x.view().data);
  REQUIRE(resize_by(x, 1.1, 1, ResizeMode::bilinear).view().data == x.view().data);
}

TEST_CASE("resize refuses what does not fit", "[ops]") {
  using enum ResizeMode;
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(resize(ones({1, 2, 3}), 2, 2, bilinear), "[resize] x [1, 2, 3] to 2 x 2");
  REQUIRE_ERROR(resize(ones({1, 1, 2, 2}), 0, 2, bilinear), "to 0 x 2");
  REQUIRE_ERROR(resize(ones({1, 1, 0, 2}), 2, 2, nearest), "x [1, 1, 0, 2]");
  REQUIRE_ERROR(resize(ones({1, 1, 2, 2}), 4, 4, nearest, Coordinates::align_corners),
                "[resize] nearest with aligned corners");
  REQUIRE_ERROR(resize(ones({1, 1, 1, 1}), 1, int64_t{1} << 40, nearest), "fewer than 2^29");
  REQUIRE_ERROR(resize_by(ones({1, 1, 2, 2}), 0, 2, bilinear),
                "[resize_by] x [1, 1, 2, 2] by 0 x 2");
  REQUIRE_ERROR(resize_by(ones({1, 1, 2, 2}), 0.4, 2, bilinear), "at least one pixel");
  REQUIRE_ERROR(resize_by(ones({1, 1, 2, 2}), 2, std::nan(""), bilinear), "by 2 x nan");
}

}  // namespace accrue::test
