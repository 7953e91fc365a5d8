#pragma once

#include <cstdint>

namespace accrue::test {

// The tests' program is linked so that Tensor::empty and Tensor::full, as other files call them,
// come here first: an allocation can then be made to fail wherever it stands. The failure is real,
// the ledger's limit is below what is in use while it happens. Meta devices are left alone.

// Allocations so far.
int64_t allocations();

// While alive, the n-th allocation from now on (1 is the next) runs out of memory, once, or with
// Failing::on all of them from there on. Empty ones never do. With Failing::on_full_device it is
// not the ledger that refuses, but cuda that has no memory left, once.
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
