#include "kernels/upsample.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// At most `most` pixels of y read the same pixel of x.
Op resize_op(const Shape& x, int64_t H, int64_t W, double most) {
  return {.name = fmt::format("resize_nearest of {} to {} x {}", x, H, W),
          .inputs = {x},
          .run = [=](const auto& in) { return resize_nearest(in[0], H, W); },
          .reference =
              [=](const auto& in) {
                Values y;
                for (int64_t plane = 0; plane < x.numel(0, 2); ++plane)
                  for (int64_t h = 0; h < H; ++h)
                    for (int64_t w = 0; w < W; ++w)
                      y.push_back(in[0][static_cast<size_t>((plane * x[2] + h * x[2] / H) * x[3] +
                                                            w * x[3] / W)]);
                return y;
              },
          .depth = most};
}

}  // namespace

TEST_CASE("upsample_nearest", "[ops]") {
  const Shape x{2, 3, 3, 4};
  constexpr int64_t factor = 3;
  Op op = resize_op(x, x[2] * factor, x[3] * factor, factor * factor);
  op.name = "upsample_nearest";
  op.run = [](const auto& in) { return upsample_nearest(in[0], factor); };
  check_op(op);
}

TEST_CASE("resize_nearest", "[ops]") {
  check_op(resize_op({2, 3, 3, 4}, 5, 7, 2 * 2));
  check_op(resize_op({2, 2, 5, 7}, 3, 4, 1));
  check_op(resize_op({1, 2, 2, 7}, 3, 3, 2));  // growing one way and shrinking the other
  check_op(resize_op({2, 2, 4, 6}, 1, 1, 1));
  check_op(resize_op({2, 2, 1, 1}, 3, 8, 3 * 8));
  check_op(resize_op({1, 1, 1, 70}, 2, 105, 2 * 2));  // the CPU cuts this row into parts
  check_op(resize_op({1, 1, 1, 70}, 1, 140, 2));
}

TEST_CASE("resize_nearest refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(resize_nearest(ones({1, 2, 3}), 2, 2), "x [1, 2, 3] to 2 x 2");
  REQUIRE_ERROR(resize_nearest(ones({1, 1, 2, 2}), 0, 2), "to 0 x 2");
  REQUIRE_ERROR(resize_nearest(ones({1, 1, 0, 2}), 2, 2), "x [1, 1, 0, 2]");
}

}  // namespace accrue::test
