#include "core/memory.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/cuda.h"

namespace accrue {
namespace {

constexpr size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// Freed host blocks, kept by size class: training asks for the same sizes again in every
// micro-batch, and fresh pages from the system cost more than the arithmetic on them.
class HostBlocks {
 public:
  // Eight classes per power of two: at most 1/8 of a block is unused.
  static size_t size_class(size_t bytes) {
    return round_up(bytes, std::max(Ledger::alignment, std::bit_floor(bytes) / 8));
  }

  void* take(size_t bytes) {
    const size_t size = size_class(bytes);
    {
      std::lock_guard lock(mutex_);
      auto& blocks = free_[size];
      if (!blocks.empty()) {
        void* block = blocks.back();
        blocks.pop_back();
        return block;
      }
    }
    void* block = std::aligned_alloc(Ledger::alignment, size);
    if (block) return block;
    release();
    return std::aligned_alloc(Ledger::alignment, size);
  }

  void give(void* block, size_t bytes) {
    std::lock_guard lock(mutex_);
    free_[size_class(bytes)].push_back(block);
  }

  void release() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
  }

  ~HostBlocks() { release(); }

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
};

HostBlocks& host_blocks() {
  static HostBlocks blocks;
  return blocks;
}

// What the device's own allocator adds to an error about its memory.
std::string reserve_of(Device device) {
  return device == Device::cuda ? "; " + cuda::blocks().describe() : "";
}

}  // namespace

std::string_view name(Category category) {
  static constexpr std::array<std::string_view, all_categories.size()> names{
      "parameters", "gradients", "optimizer", "activations", "workspace", "data"};
  return names[static_cast<size_t>(category)];
}

size_t Usage::total() const {
  size_t sum = 0;
  for (size_t b : bytes) sum += b;
  return sum;
}

std::string to_string(const Usage& usage) {
  std::string text = format_bytes(usage.total());
  std::string_view separator = " = ";
  for (Category c : all_categories) {
    if (usage[c] == 0) continue;
    text += fmt::format("{}{} {}", separator, name(c), format_bytes(usage[c]));
    separator = " + ";
  }
  return text;
}

std::string format_bytes(size_t bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

size_t parse_bytes(const std::string& text) {
  static const std::unordered_map<std::string, double> units{
      {"", 1},          {"b", 1},           {"k", 1024.0},       {"kib", 1024.0},
      {"m", 1048576.0}, {"mib", 1048576.0}, {"g", 1073741824.0}, {"gib", 1073741824.0},
      {"kb", 1e3},      {"mb", 1e6},        {"gb", 1e9}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c)
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  const auto factor = units.find(unit);
  const bool valid = error == std::errc() && factor != units.end() && value > 0 &&
                     value * factor->second < 9e18 && value * factor->second >= 1;
  check(valid, "'{}' is not a size: expected a number and a unit, such as 64MiB or 1.5GiB", text);
  return static_cast<size_t>(value * factor->second);
}

void Ledger::charge(Category category, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (limit_ && current_total_ + bytes > *limit_) {
    throw OutOfMemory(fmt::format(
        "out of memory on {}: asked for {} more ({}); in use {}; limit {}{}. A smaller micro-batch "
        "with more accumulation steps gives the same result in less memory",
        name(device_), format_bytes(bytes), name(category), to_string(current_),
        format_bytes(*limit_), reserve_of(device_)));
  }
  current_[category] += bytes;
  current_total_ += bytes;
  if (current_total_ > peak_total_) {
    peak_total_ = current_total_;
    peak_ = current_;
  }
}

void Ledger::refund(Category category, size_t bytes) {
  std::lock_guard lock(mutex_);
  current_[category] -= bytes;
  current_total_ -= bytes;
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

Ledger& ledger(Device device) {
  static std::array<Ledger, 4> ledgers{Ledger(Device::cpu), Ledger(Device::cuda),
                                       Ledger(Device::meta), Ledger(Device::meta_cuda)};
  return ledgers[static_cast<size_t>(device)];
}

Storage::Storage(size_t bytes, Device device, Category category)
    : bytes_(round_up(bytes, Ledger::alignment)), device_(device), category_(category) {
  ledger(device_).charge(category_, bytes_);
  if (is_meta(device_) || bytes_ == 0) return;
  const auto failed = [&] {
    const Usage in_use = ledger(device_).current();
    ledger(device_).refund(category_, bytes_);
    return in_use;
  };
  try {
    data_ = device_ == Device::cuda ? cuda::allocate(bytes) : host_blocks().take(bytes_);
  } catch (...) {
    failed();
    throw;
  }
  if (!data_) {
    const Usage in_use = failed();
    throw OutOfMemory(
        fmt::format("{} has no memory for {} more ({}); in use {}{}. A smaller "
                    "micro-batch with more accumulation steps gives the same result "
                    "in less memory",
                    device_ == Device::cuda ? "the CUDA device" : "the machine",
                    format_bytes(bytes_), name(category_), to_string(in_use), reserve_of(device_)));
  }
}

Storage::~Storage() {
  if (data_ && device_ == Device::cuda) cuda::deallocate(data_);
  else if (data_) host_blocks().give(data_, bytes_);
  ledger(device_).refund(category_, bytes_);
}

}  // namespace accrue
