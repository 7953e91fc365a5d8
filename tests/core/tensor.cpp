#include "core/tensor.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {

TEST_CASE("elements are read as what they are, or it is said what they are", "[engine]") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  REQUIRE(x.span<float>()[1] == 2);
  REQUIRE_ERROR(x.span<int32_t>(), "span<int32_t>() of a tensor f32 [2]: expected span<float>()");
}

TEST_CASE("a tensor has read the values that it is made from", "[engine]") {
  const PageableAccess late;
  std::vector<float> values{1, 2};
  const Tensor x = Tensor::from(values, {2}, test_device());
  values[0] = values[1] = 3;
  REQUIRE(to_doubles(x) == std::vector<double>{1, 2});
}

}  // namespace accrue::test
