#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/memory_scope.h"
#include "core/shape.h"
#include "core/usage.h"

namespace accrue {

namespace detail {

// Describes an allocation.
struct AllocationInfo {
  size_t bytes = 0;  // rounded up to Ledger::alignment
  Category category{};
  Shape shape;
  DType dtype{};
  Phase phase{};        // of the scope it was made in
  Label label;          // of the scope it was made in
  uint64_t number = 0;  // counts the ledger's allocations

  // The label, or the category's name if there is no label.
  std::string_view name() const {
    return label.empty() ? accrue::detail::name(category) : label.text();
  }
  // "f32 [8, 32, 14, 14]"
  std::string type() const { return fmt::format("{} {}", accrue::detail::name(dtype), shape); }
};

// A group of allocations that differ only in their `number`.
struct AllocationGroup {
  AllocationInfo each;
  int64_t count;
  size_t bytes;  // of all allocations of the group together
};

// The reason why an allocation was refused, and the allocations that hold the memory.
struct MemoryShortage {
  Device device;
  AllocationInfo requested;
  std::string cause;  // the allocator's reason; empty if the limit refused
  Usage in_use, peak;
  std::optional<size_t> limit;
  Reserve reserve;  // the cpu's with page-locked memory; all zero on a meta device
  std::vector<AllocationGroup> largest;  // at most five
};

}  // namespace detail

// Returns a sentence, then a line for each known fact.
std::string to_string(const detail::MemoryShortage& shortage);

// Thrown when an allocation would exceed the ledger's limit or the machine's memory.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const detail::MemoryShortage& shortage)
      : Error(to_string(shortage)), shortage_(std::make_shared<detail::MemoryShortage>(shortage)) {}
  const detail::MemoryShortage& shortage() const { return *shortage_; }

 private:
  std::shared_ptr<const detail::MemoryShortage> shortage_;
};

namespace detail {

// The ledger calls this for every allocation, in order, while it is locked.
class LedgerObserver {
 public:
  virtual ~LedgerObserver() = default;
  // Called before the allocation is counted. If this throws, the allocation is not counted.
  virtual void charging(const AllocationInfo& allocation) = 0;
  virtual void refunding(const AllocationInfo& allocation) = 0;
};

class Allocation;

}  // namespace detail

// The account of one device's memory: the bytes in use now and at the peak, by category, and every
// live allocation by name. Sizes are rounded up to `alignment`, which is the same on every device.
// A prediction on a meta device therefore agrees to the byte with a measurement on the real device.
// Thread-safe.
class Ledger {
 public:
  static constexpr size_t alignment = 64;

  explicit Ledger(Device device) : device_(device) {}

  Usage current() const;
  // The breakdown at the moment the total was highest since reset_peak().
  Usage peak() const;
  void reset_peak();

  // Limits the total, which makes a big machine behave like a small card; nullopt lifts the limit.
  void set_limit(std::optional<size_t> bytes);
  std::optional<size_t> limit() const;

  // Lists live allocations, largest first, with equal ones in a group; at most `count` groups.
  std::vector<detail::AllocationGroup> largest(size_t count) const;
  // Describes the failure when the allocator has no memory for `requested`, which the ledger has
  // counted already.
  detail::MemoryShortage shortage(const detail::Allocation& requested, std::string cause) const;

  // Sets the only observer, or removes it if null. Returns the memory in use at that moment. Throws
  // Error if there is another observer.
  Usage observe(detail::LedgerObserver* observer);

 private:
  friend class detail::Allocation;
  void charge(detail::Allocation& allocation);
  void refund(detail::Allocation& allocation);
  std::vector<detail::AllocationGroup> largest_but(const detail::Allocation* left_out,
                                                   size_t count) const;
  detail::MemoryShortage shortage_of(const detail::Allocation& requested, std::string cause) const;

  mutable std::mutex mutex_;
  const Device device_;
  Usage current_, peak_;
  size_t current_total_ = 0, peak_total_ = 0;
  std::optional<size_t> limit_;
  detail::Allocation* newest_ = nullptr;  // head of the list of live allocations
  uint64_t allocations_ = 0;
  detail::LedgerObserver* observer_ = nullptr;
};

// One ledger per device, because the device's memory is one.
Ledger& ledger(Device device);

namespace detail {

// An entry on a device's ledger from construction to destruction. It takes the phase and label of
// the current MemoryScope.
class Allocation {
 public:
  // Counts the bytes of `shape` in `dtype`. Throws OutOfMemory, and counts nothing, if the ledger's
  // total would exceed its limit.
  Allocation(const Shape& shape, DType dtype, Device device, Category category);
  ~Allocation() { ledger(device_).refund(*this); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  const AllocationInfo& info() const { return info_; }
  Device device() const { return device_; }

 private:
  friend class accrue::Ledger;
  AllocationInfo info_;
  Device device_;
  Allocation *older_ = nullptr, *newer_ = nullptr;
};

}  // namespace detail

}  // namespace accrue
