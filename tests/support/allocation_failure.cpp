#include "tests/support/allocation_failure.h"

#include <atomic>

#include "core/limit_scope.h"
#include "core/tensor.h"
#include "tests/support/device.h"

// The linker's --wrap (tests/CMakeLists.txt) takes symbols as the compiler names them.
#define TENSOR_EMPTY "_ZN6accrue6Tensor5emptyERKNS_5ShapeENS_5DTypeENS_6DeviceENS_8CategoryE"
#define TENSOR_FULL "_ZN6accrue6Tensor4fullERKNS_5ShapeEdNS_5DTypeENS_6DeviceENS_8CategoryE"

namespace accrue::test {
namespace {

// Loaders allocate on their threads, too.
std::atomic<int64_t> count{0}, failing_from{0};
std::atomic<Failing> how{Failing::once};
std::atomic<bool> failed{false};

template <class Allocate>
Tensor counted(const Shape& shape, Device device, Allocate&& allocate) {
  if (is_meta(device)) return allocate();
  const int64_t number = ++count;
  if (failing_from == 0 || number < failing_from || shape.numel() == 0) return allocate();
  if (how != Failing::on && failed.exchange(true)) return allocate();
  failed = true;
  if (how == Failing::on_full_device) {
    const FullDevice full;
    return allocate();
  }
  const LimitScope nothing_left(device, 1);
  return allocate();
}

}  // namespace

int64_t allocations() { return count; }

AllocationFailure::AllocationFailure(int64_t n, Failing failing) {
  how = failing;
  failed = false;
  failing_from = count + n;
}
AllocationFailure::~AllocationFailure() { failing_from = 0; }
bool AllocationFailure::happened() const { return failed; }

Tensor real_empty(const Shape&, DType, Device, Category) asm("__real_" TENSOR_EMPTY);
Tensor counted_empty(const Shape&, DType, Device, Category) asm("__wrap_" TENSOR_EMPTY);
Tensor real_full(const Shape&, double, DType, Device, Category) asm("__real_" TENSOR_FULL);
Tensor counted_full(const Shape&, double, DType, Device, Category) asm("__wrap_" TENSOR_FULL);

Tensor counted_empty(const Shape& shape, DType dtype, Device device, Category category) {
  return counted(shape, device, [&] { return real_empty(shape, dtype, device, category); });
}

Tensor counted_full(const Shape& shape, double value, DType dtype, Device device,
                    Category category) {
  return counted(shape, device, [&] { return real_full(shape, value, dtype, device, category); });
}

}  // namespace accrue::test
