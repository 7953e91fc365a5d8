#include "core/tensor.h"

#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("elements are read as what they are, or it is said what they are", "[engine]") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  REQUIRE(x.span<float>()[1] == 2);
  REQUIRE_ERROR(x.span<int32_t>(), "span<int32_t>() of a tensor f32 [2]: expected span<float>()");
}

}  // namespace accrue::test
