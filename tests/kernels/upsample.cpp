#include "kernels/upsample.h"

#include "tests/support/catch.h"
#include "tests/support/op_table.h"

namespace accrue::test {

TEST_CASE("upsample_nearest", "[ops]") {
  const Shape x{2, 3, 3, 4};
  constexpr int64_t factor = 3;
  check_op({.name = "upsample_nearest",
            .inputs = {x},
            .run = [](const auto& in) { return upsample_nearest(in[0], factor); },
            .reference =
                [=](const auto& in) {
                  Values y;
                  for (int64_t row = 0; row < x.numel(0, 3) * factor; ++row)
                    for (int64_t w = 0; w < x[3] * factor; ++w)
                      y.push_back(in[0][static_cast<size_t>(row / factor * x[3] + w / factor)]);
                  return y;
                },
            .depth = factor * factor});
}

}  // namespace accrue::test
