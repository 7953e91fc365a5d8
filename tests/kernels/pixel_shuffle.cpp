#include "kernels/pixel_shuffle.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Op pixel_shuffle_op(const Shape& x, int64_t factor) {
  return {.name = fmt::format("pixel_shuffle of {} by {}", x, factor),
          .inputs = {x},
          .run = [=](const auto& in) { return pixel_shuffle(in[0], factor); },
          .reference =
              [=](const auto& in) {
                const int64_t C = x[1] / factor / factor;
                Values y;
                for (int64_t nc = 0; nc < x[0] * C; ++nc)
                  for (int64_t h = 0; h < x[2] * factor; ++h)
                    for (int64_t w = 0; w < x[3] * factor; ++w) {
                      const int64_t i = h % factor, j = w % factor;
                      const int64_t channel = (nc * factor + i) * factor + j;
                      y.push_back(in[0][static_cast<size_t>((channel * x[2] + h / factor) * x[3] +
                                                            w / factor)]);
                    }
                return y;
              },
          .depth = 1};
}

}  // namespace

TEST_CASE("pixel_shuffle", "[ops]") {
  check_op(pixel_shuffle_op({2, 12, 2, 3}, 2));
  check_op(pixel_shuffle_op({1, 4, 3, 8}, 2));  // whole vectors of dx, too
  check_op(pixel_shuffle_op({1, 9, 3, 2}, 3));
  check_op(pixel_shuffle_op({2, 4, 1, 1}, 2));
}

TEST_CASE("pixel_shuffle lays pixels out as PyTorch's PixelShuffle", "[ops]") {
  const Tensor x = Tensor::from(Values{0, 1, 10, 11, 20, 21, 30, 31}, {1, 4, 1, 2}, test_device());
  const Tensor y = pixel_shuffle(x, 2);
  REQUIRE(y.shape() == Shape{1, 1, 2, 4});
  REQUIRE(to_doubles(y) == Values{0, 10, 1, 11, 20, 30, 21, 31});
}

TEST_CASE("pixel_shuffle refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(pixel_shuffle(ones({1, 6, 2, 2}), 2), "x [1, 6, 2, 2] and factor 2");
  REQUIRE_ERROR(pixel_shuffle(ones({4, 2, 2}), 2), "x [4, 2, 2]");
  REQUIRE_ERROR(pixel_shuffle(ones({1, 4, 2, 2}), 0), "factor 0");
}

}  // namespace accrue::test
