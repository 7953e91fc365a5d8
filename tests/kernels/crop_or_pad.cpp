#include "kernels/crop_or_pad.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Op crop_or_pad_op(const Shape& x, int64_t H, int64_t W) {
  return {.name = fmt::format("crop_or_pad of {} to {}x{}", x, H, W),
          .inputs = {x},
          .run = [=](const auto& in) { return crop_or_pad(in[0], H, W); },
          .reference =
              [=](const auto& in) {
                Values y;
                for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
                  for (int64_t h = 0; h < H; ++h)
                    for (int64_t w = 0; w < W; ++w)
                      y.push_back(h < x[2] && w < x[3]
                                      ? in[0][static_cast<size_t>((plane * x[2] + h) * x[3] + w)]
                                      : 0);
                return y;
              },
          .depth = 1};
}

Op crop_op(const Shape& x, int64_t top, int64_t left, int64_t H, int64_t W) {
  return {.name = fmt::format("crop of {} to {}x{} from {}, {}", x, H, W, top, left),
          .inputs = {x},
          .run = [=](const auto& in) { return crop(in[0], top, left, H, W); },
          .reference =
              [=](const auto& in) {
                Values y;
                for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
                  for (int64_t h = top; h < top + H; ++h)
                    for (int64_t w = left; w < left + W; ++w)
                      y.push_back(in[0][static_cast<size_t>((plane * x[2] + h) * x[3] + w)]);
                return y;
              },
          .depth = 1};
}

}  // namespace

TEST_CASE("crop_or_pad", "[ops]") {
  check_op(crop_or_pad_op({2, 3, 3, 5}, 4, 8));
  check_op(crop_or_pad_op({2, 3, 4, 8}, 3, 5));
  check_op(crop_or_pad_op({1, 2, 3, 6}, 5, 2));  // padded below, cut on the right
  check_op(crop_or_pad_op({1, 2, 4, 40}, 4, 40));
}

TEST_CASE("crop", "[ops]") {
  check_op(crop_op({2, 3, 4, 8}, 1, 3, 2, 4));
  check_op(crop_op({1, 2, 6, 5}, 0, 2, 6, 3));
  check_op(crop_op({1, 2, 5, 40}, 4, 0, 1, 40));
}

TEST_CASE("crop refuses a region outside of the image", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(crop(ones({1, 1, 2, 2}), 1, 0, 2, 2), "to 2x2 from row 1 and column 0");
  REQUIRE_ERROR(crop(ones({1, 1, 2, 2}), 0, -1, 2, 2), "a part of it");
  REQUIRE_ERROR(crop(ones({1, 1, 2, 2}), 0, 0, 0, 2), "a part of it");
}

TEST_CASE("crop_or_pad refuses what has no size", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(crop_or_pad(ones({2, 3, 4}), 2, 2), "x [2, 3, 4] to 2x2");
  REQUIRE_ERROR(crop_or_pad(ones({1, 1, 2, 2}), 0, 2), "to 0x2");
}

}  // namespace accrue::test
