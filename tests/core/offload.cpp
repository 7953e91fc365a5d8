// A suspended computation moves its tensors to the host.

#include "core/offload.h"

#include "core/cuda.h"
#include "core/limit_scope.h"
#include "core/tensor.h"
#include "kernels/pointwise.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace offload_test {
namespace {

size_t in_use(Device device) { return ledger(device).current().total(); }

}  // namespace

TEST_CASE("tensors that are moved to the host come back when somebody asks for their elements",
          "[offload]") {
  const Device device = test_device();
  if (device != Device::cuda) SKIP_LOUDLY("nothing is offloaded without --device cuda");
  Offload offload;
  Tensor x, row, other;
  {
    const Offload::Scope scope(offload);
    x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}, device, Category::activations);
    row = x.slice(1, 2);
    other = Tensor::full({1000}, 7, DType::f64, device);
  }
  const Tensor outside = Tensor::full({2}, 8, DType::f32, device);
  const size_t before = in_use(device), on_host = in_use(Device::cpu);
  for (int time = 0; time < 2; ++time) {
    offload.move_to_host();
    REQUIRE(in_use(device) == before - 64 - 8000);
    REQUIRE(in_use(Device::cpu) == on_host + 64 + 8000);
    REQUIRE(to_doubles(row) == std::vector<double>{3, 4});  // brings all of x back
    REQUIRE(in_use(device) == before - 8000);
    REQUIRE(to_doubles(x) == std::vector<double>{1, 2, 3, 4, 5, 6});
    REQUIRE(to_doubles(outside) == std::vector<double>{8, 8});
  }
  other.reset();  // while it is on the host
  REQUIRE(in_use(device) == before - 8000);
  REQUIRE(in_use(Device::cpu) == on_host);
  offload.move_to_host();
  {
    const LimitScope limit(device, in_use(device) + 63);
    REQUIRE_THROWS_AS(x.view(), OutOfMemory);
  }
  x.copy_from(Tensor::full({3, 2}, 9, DType::f32, device));
  REQUIRE(to_doubles(row) == std::vector<double>{9, 9});
}

TEST_CASE("elements that wait are computed where they have come back to", "[offload]") {
  const Device device = test_device();
  if (device != Device::cuda) SKIP_LOUDLY("nothing is offloaded without --device cuda");
  Offload offload;
  Tensor x;
  {
    const Offload::Scope scope(offload);
    x = Tensor::full({2}, 1, DType::f32, device);
  }
  x.compute_later([](const View& elements) { cuda::fill(elements, 5); });
  offload.move_to_host();
  REQUIRE(x.is_waiting());
  const Tensor other = Tensor::full({2}, 3, DType::f32, device);  // where x was
  REQUIRE(to_doubles(x) == std::vector<double>{5, 5});
  REQUIRE(to_doubles(other) == std::vector<double>{3, 3});
}

TEST_CASE("tensors moved to the host are charged alike without a device", "[core][plan]") {
  constexpr Device device = Device::meta_cuda;
  Offload offload;
  Tensor x;
  {
    const Offload::Scope scope(offload);
    x = Tensor::empty({100}, DType::f32, device);
    const Tensor scratch = Tensor::empty({100}, DType::f32, device, Category::workspace);
    const size_t before = in_use(device), on_host = in_use(Device::meta);
    offload.move_to_host();
    REQUIRE(in_use(device) == before - 448);
    REQUIRE(in_use(Device::meta) == on_host + 448);
    const Tensor y = relu(x);
    REQUIRE(in_use(device) == before + 448);
    REQUIRE(in_use(Device::meta) == on_host);
  }
}

}  // namespace offload_test
}  // namespace accrue::test
