// Layers of convolutions and pools with groups and axes of their own.

#include "core/autograd.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {

TEST_CASE("layers say their groups and axes", "[layers]") {
  const Conv2d depthwise(6, 12, {3, 1}, {.stride = {2, 1}, .padding = {{1, 0}}, .groups = 6});
  REQUIRE(depthwise.describe() == "conv 3x1 6 -> 12, stride 2x1, padding 1x0, groups 6");
  REQUIRE(Conv2d(3, 4, 3, {.padding = 1}).describe() == "conv 3x3 3 -> 4, stride 1, padding 1");
  REQUIRE(ConvTranspose2d(4, 6, 2, {.stride = 2, .groups = 2}).describe() ==
          "transposed conv 2x2 4 -> 6, stride 2, padding 0, groups 2");
  REQUIRE(MaxPool2d({{3, 2}, {2, 1}, {1, 0}, true}).describe() ==
          "max-pool 3x2, stride 2x1, padding 1x0, rounded up");
  REQUIRE(AvgPool2d({2}).describe() == "average-pool 2x2, stride 2");
  REQUIRE(AdaptiveAvgPool2d({3, 4}).describe() == "adaptive average-pool to 3x4");
  REQUIRE_ERROR(Conv2d(6, 8, 3, {.groups = 4}),
                "channels 8 and 6 in 4 groups: expected groups to divide both");
  REQUIRE_ERROR(ConvTranspose2d(6, 8, 3, {.groups = 4}), "channels 6 and 8 in 4 groups");
  REQUIRE_ERROR(Conv2d(6, 8, 3, {.groups = 0}), "0 groups");
}

}  // namespace accrue::test
