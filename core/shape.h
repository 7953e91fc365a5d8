#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/error.h"

namespace accrue {

// Sizes of a contiguous row-major tensor, outermost first. Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  // The size of one dimension; a negative `dim` counts from the end. Throws Error if it is out of
  // range.
  int64_t operator[](int dim) const;
  // Product of the sizes in [begin, end).
  int64_t numel(int begin, int end) const;
  int64_t numel() const { return numel(0, rank_); }
  // Returns this shape with the size in `dim` replaced.
  Shape with(int dim, int64_t size) const;

  std::span<const int64_t> sizes() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }
  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  std::array<int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

// "[32, 784]"
std::string to_string(const Shape& shape);

}  // namespace accrue

template <>
struct fmt::formatter<accrue::Shape> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const accrue::Shape& shape, Context& context) const {
    return fmt::formatter<std::string>::format(accrue::to_string(shape), context);
  }
};
