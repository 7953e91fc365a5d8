#include "core/ledger.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/cuda.h"
#include "core/host_blocks.h"

namespace accrue {
namespace {

Reserve reserve_of(Device device) {
  if (is_meta(device)) return {};
  if (device == Device::cuda) return cuda::blocks().statistics();
  Reserve reserve = host_blocks().statistics();
  const Reserve locked = cuda::blocks_on_host().statistics();
  reserve.reserved += locked.reserved;
  reserve.allocated += locked.allocated;
  reserve.largest_free = std::max(reserve.largest_free, locked.largest_free);
  reserve.segments += locked.segments;
  return reserve;
}

// The largest width of the column of names.
constexpr size_t widest_name = 40;

std::string describe(const std::vector<AllocationGroup>& groups) {
  size_t width = 0;
  for (const AllocationGroup& group : groups)
    width = std::max(width, std::min(widest_name, group.each.name().size()));
  std::string text;
  for (const auto& [each, count, bytes] : groups)
    text +=
        fmt::format("\n    {:>9}  {:<11}  {:<{}}  {}{} (made in {})", format_bytes(bytes),
                    name(each.category), each.name(), width,
                    count > 1 ? fmt::format("{} x ", count) : "", each.type(), name(each.phase));
  return text;
}

}  // namespace

std::string to_string(const MemoryShortage& shortage) {
  const AllocationInfo& asked = shortage.requested;
  std::string text =
      fmt::format("out of memory on {}: asked for {} more ({}) for '{}', {}, in {}",
                  name(shortage.device), format_bytes(asked.bytes), name(asked.category),
                  asked.name(), asked.type(), name(asked.phase));
  if (!shortage.cause.empty()) text += ": " + shortage.cause;
  text += fmt::format("\n  in use     {}\n  peak       {}\n  limit      {}",
                      to_string(shortage.in_use), to_string(shortage.peak),
                      shortage.limit ? format_bytes(*shortage.limit) : "none");
  if (!is_meta(shortage.device)) text += "\n  allocator  " + to_string(shortage.reserve);
  if (!shortage.largest.empty()) text += "\n  largest" + describe(shortage.largest);
  if (asked.phase == Phase::forward || asked.phase == Phase::backward)
    text +=
        "\nA smaller micro-batch with more accumulation steps gives the same result in less memory";
  return text;
}

Allocation::Allocation(const Shape& shape, DType dtype, Device device, Category category)
    : info_{.category = category,
            .shape = shape,
            .dtype = dtype,
            .phase = MemoryScope::phase(),
            .label = MemoryScope::label()},
      device_(device) {
  const size_t bytes = bytes_of(dtype, shape.numel());
  info_.bytes = (bytes + Ledger::alignment - 1) / Ledger::alignment * Ledger::alignment;
  ledger(device_).charge(*this);
}

void Ledger::charge(Allocation& allocation) {
  std::lock_guard lock(mutex_);
  AllocationInfo& info = allocation.info_;
  if (limit_ && current_total_ + info.bytes > *limit_)
    throw OutOfMemory(shortage_of(allocation, {}));
  info.number = ++allocations_;
  if (observer_) observer_->charging(info);
  allocation.older_ = newest_;
  if (newest_) newest_->newer_ = &allocation;
  newest_ = &allocation;
  current_[info.category] += info.bytes;
  current_total_ += info.bytes;
  if (current_total_ > peak_total_) {
    peak_total_ = current_total_;
    peak_ = current_;
  }
}

void Ledger::refund(Allocation& allocation) {
  std::lock_guard lock(mutex_);
  const AllocationInfo& info = allocation.info_;
  if (observer_) observer_->refunding(info);
  if (allocation.older_) allocation.older_->newer_ = allocation.newer_;
  (allocation.newer_ ? allocation.newer_->older_ : newest_) = allocation.older_;
  current_[info.category] -= info.bytes;
  current_total_ -= info.bytes;
}

Usage Ledger::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

Usage Ledger::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void Ledger::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = current_;
  peak_total_ = current_total_;
}

void Ledger::set_limit(std::optional<size_t> bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::optional<size_t> Ledger::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

std::vector<AllocationGroup> Ledger::largest(size_t count) const {
  std::lock_guard lock(mutex_);
  return largest_but(nullptr, count);
}

std::vector<AllocationGroup> Ledger::largest_but(const Allocation* left_out, size_t count) const {
  const auto key = [](const AllocationInfo& info) {
    const auto sizes = info.shape.sizes();
    return std::tuple(info.category, info.phase, info.label, info.dtype,
                      std::vector(sizes.begin(), sizes.end()));
  };
  std::map<decltype(key(AllocationInfo{})), AllocationGroup> groups;
  for (const Allocation* live = newest_; live; live = live->older_) {
    if (live == left_out || live->info_.bytes == 0) continue;
    AllocationGroup& group =
        groups.try_emplace(key(live->info_), AllocationGroup{live->info_, 0, 0}).first->second;
    ++group.count;
    group.bytes += live->info_.bytes;
  }
  std::vector<AllocationGroup> result;
  for (const auto& [same, group] : groups) result.push_back(group);
  // Groups of equal size are ordered by number, so the same program gives the same order.
  std::ranges::sort(result, [](const AllocationGroup& a, const AllocationGroup& b) {
    return std::pair(b.bytes, a.each.number) < std::pair(a.bytes, b.each.number);
  });
  if (result.size() > count) result.resize(count);
  return result;
}

MemoryShortage Ledger::shortage(const Allocation& requested, std::string cause) const {
  std::lock_guard lock(mutex_);
  MemoryShortage result = shortage_of(requested, std::move(cause));
  result.in_use[requested.info_.category] -= requested.info_.bytes;
  return result;
}

MemoryShortage Ledger::shortage_of(const Allocation& requested, std::string cause) const {
  return {.device = device_,
          .requested = requested.info_,
          .cause = std::move(cause),
          .in_use = current_,
          .peak = peak_,
          .limit = limit_,
          .reserve = reserve_of(device_),
          .largest = largest_but(&requested, 5)};
}

Usage Ledger::observe(LedgerObserver* observer) {
  std::lock_guard lock(mutex_);
  check(!observer || !observer_ || observer == observer_,
        "the ledger of {} has an observer already", name(device_));
  observer_ = observer;
  return current_;
}

Ledger& ledger(Device device) {
  static std::array<Ledger, 4> ledgers{Ledger(Device::cpu), Ledger(Device::cuda),
                                       Ledger(Device::meta), Ledger(Device::meta_cuda)};
  return ledgers[static_cast<size_t>(device)];
}

}  // namespace accrue
