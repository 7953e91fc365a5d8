#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include "core/device.h"
#include "core/error.h"

namespace accrue {

// What an allocation is for. Every byte of every device is in exactly one category.
enum class Category {
  parameters,   // weights and module buffers
  gradients,    // parameter gradients (the accumulators)
  optimizer,    // moments
  activations,  // what one micro-batch's forward keeps, and the gradients flowing through it
  workspace,    // scratch inside one kernel call
  data          // samples and labels
};
inline constexpr std::array all_categories{Category::parameters, Category::gradients,
                                           Category::optimizer,  Category::activations,
                                           Category::workspace,  Category::data};
std::string_view name(Category category);

// Bytes by category.
struct Usage {
  std::array<size_t, all_categories.size()> bytes{};

  size_t& operator[](Category c) { return bytes[static_cast<size_t>(c)]; }
  size_t operator[](Category c) const { return bytes[static_cast<size_t>(c)]; }
  size_t total() const;
};

// "4.5 MiB = parameters 1.1 MiB + gradients 1.1 MiB + ...", empty categories left out.
std::string to_string(const Usage& usage);
// "3.1 MiB", "512 B"
std::string format_bytes(size_t bytes);
// Reads "64MiB", "1.5GiB", "4096"; binary (KiB, MiB, GiB) and decimal (KB, MB, GB) units.
size_t parse_bytes(const std::string& text);

// Thrown when an allocation would exceed the ledger's limit or the machine has no more.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// The account of one device's memory: bytes now, at the peak, and what the peak was made of.
// Sizes are rounded up to `alignment`, the same on every device, so that a prediction on a meta
// device and a measurement on the device it stands for agree to the byte. Thread-safe.
class Ledger {
 public:
  static constexpr size_t alignment = 64;

  explicit Ledger(Device device) : device_(device) {}

  // Throws OutOfMemory, and counts nothing, if the total would exceed the limit.
  void charge(Category category, size_t bytes);
  void refund(Category category, size_t bytes);

  Usage current() const;
  // The breakdown at the moment the total was highest since reset_peak().
  Usage peak() const;
  void reset_peak();

  // Makes a big machine behave as a small card; nullopt lifts the limit.
  void set_limit(std::optional<size_t> bytes);
  std::optional<size_t> limit() const;

 private:
  mutable std::mutex mutex_;
  const Device device_;
  Usage current_, peak_;
  size_t current_total_ = 0, peak_total_ = 0;
  std::optional<size_t> limit_;
};

// One ledger per device, because the device's memory is one.
Ledger& ledger(Device device);

// One block of device memory, on the ledger from construction to destruction.
class Storage {
 public:
  Storage(size_t bytes, Device device, Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  Device device() const { return device_; }
  Category category() const { return category_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
  Device device_;
  Category category_;
};

}  // namespace accrue
