#include "tests/support/allocation_failure.h"

#include <dlfcn.h>

#include <atomic>

#include "core/limit_scope.h"
#include "core/tensor.h"
#include "tests/support/device.h"

// The linker's --wrap (tests/CMakeLists.txt) expects mangled names. In a build of shared libraries
// it wraps the calls of the tests alone; but there the libraries call the functions by name, and
// find the program's definitions below.
#define TENSOR_EMPTY "_ZN6accrue6Tensor5emptyERKNS_5ShapeENS_5DTypeENS_6DeviceENS_8CategoryE"
#define TENSOR_FULL "_ZN6accrue6Tensor4fullERKNS_5ShapeEdNS_5DTypeENS_6DeviceENS_8CategoryE"

namespace accrue::test {
namespace {

// Loaders allocate on their threads, too.
std::atomic<int64_t> count{0}, failing_from{0};
std::atomic<Failing> how{Failing::once};
std::atomic<bool> failed{false};

// full() calls empty(): that does not count as another allocation.
thread_local bool is_within = false;
struct Within {
  Within() { is_within = true; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
  ~Within() { is_within = false; }
};

template <class Allocate>
Tensor counted(const Shape& shape, Device device, Allocate&& allocate) {
  if (is_meta(device) || is_within || shape.numel() == 0) return allocate();
  const Within within;
  const int64_t number = ++count;
  if (failing_from == 0 || number < failing_from) return allocate();
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

// Weak: the definition in a static library takes precedence.
Tensor shared_empty(const Shape&, DType, Device, Category) asm(TENSOR_EMPTY)
    __attribute__((weak, alias("__wrap_" TENSOR_EMPTY)));
Tensor shared_full(const Shape&, double, DType, Device, Category) asm(TENSOR_FULL)
    __attribute__((weak, alias("__wrap_" TENSOR_FULL)));

// The shared library's function, or else the one that the linker has renamed.
template <class Function>
Function* real(const char* symbol, Function* set_aside) {
  void* const found = dlsym(RTLD_NEXT, symbol);
  return found ? reinterpret_cast<Function*>(found) : set_aside;
}

Tensor counted_empty(const Shape& shape, DType dtype, Device device, Category category) {
  static const auto allocate = real(TENSOR_EMPTY, real_empty);
  return counted(shape, device, [&] { return allocate(shape, dtype, device, category); });
}

Tensor counted_full(const Shape& shape, double value, DType dtype, Device device,
                    Category category) {
  static const auto allocate = real(TENSOR_FULL, real_full);
  return counted(shape, device, [&] { return allocate(shape, value, dtype, device, category); });
}

}  // namespace accrue::test
