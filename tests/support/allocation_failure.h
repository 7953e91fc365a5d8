#pragma once

#include <cstdint>

namespace accrue::test {

// In the tests' program the linker redirects calls of Tensor::empty and Tensor::full to the
// functions here: a test can make any allocation fail. The failure is real: the ledger's limit is
// below the memory in use while it happens. Allocations on meta devices never fail.

// The number of allocations so far.
int64_t allocations();

// While alive, the n-th allocation from now on (1 is the next) runs out of memory: once, or with
// Failing::on again and again from there on. Empty allocations never fail. With
// Failing::on_full_device cuda has no memory left, once, instead of a refusal by the ledger.
enum class Failing { once, on, on_full_device };
class AllocationFailure {
 public:
  explicit AllocationFailure(int64_t n, Failing failing = Failing::once);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;
  bool happened() const;
};

}  // namespace accrue::test
