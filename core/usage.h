#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace accrue {

// The purpose of an allocation. Every byte of every device is in exactly one category.
enum class Category {
  parameters,   // weights and module buffers
  gradients,    // parameter gradients (the accumulators)
  optimizer,    // moments
  activations,  // tensors that one micro-batch's forward keeps, and their gradients
  workspace,    // scratch inside one kernel call
  data          // samples and labels
};

namespace detail {

inline constexpr std::array all_categories{Category::parameters, Category::gradients,
                                           Category::optimizer,  Category::activations,
                                           Category::workspace,  Category::data};
std::string_view name(Category category);

}  // namespace detail

// Bytes by category.
struct Usage {
  std::array<size_t, detail::all_categories.size()> bytes{};

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

namespace detail {

// The bytes of device memory that an allocator holds, and the number of bytes that it has handed
// out.
struct Reserve {
  size_t reserved = 0;      // in segments
  size_t allocated = 0;     // in blocks that are handed out
  size_t largest_free = 0;  // block
  int64_t segments = 0;

  // The fraction of the free bytes that lie outside of the largest free block, from 0 to 1.
  double fragmentation() const;
};

}  // namespace detail

// "reserved 24.0 MiB in 3 segments, 21.5 MiB of it allocated, largest free block 1.5 MiB,
// fragmentation 40 %"
std::string to_string(const detail::Reserve& reserve);

}  // namespace accrue
