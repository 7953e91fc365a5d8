#include "kernels/backend.h"

#include "tests/support/catch.h"

namespace accrue::test {
namespace {
void set_to_one(detail::View y) { *y.as<float>() = 1; }
}  // namespace

TEST_CASE("an op without a kernel for CUDA is refused there, and where that is planned", "[ops]") {
  const Tensor y = Tensor::full({}, 0, DType::f32, Device::cpu);
  launch_on_cpu<set_to_one>(y.device(), y.view());
  REQUIRE(y.item() == 1);
  launch_on_cpu<set_to_one>(Device::meta, y.to(Device::meta).view());
  for (const Device device : {Device::cuda, Device::meta_cuda})
    REQUIRE_ERROR(launch_on_cpu<set_to_one>(device, y.view()),
                  "[set_to_one] has a kernel for the cpu alone");
}

}  // namespace accrue::test
