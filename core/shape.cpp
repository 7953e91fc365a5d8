#include "core/shape.h"

#include <fmt/ranges.h>

#include "core/inside.h"

namespace accrue {

Shape::Shape(std::span<const int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  check(sizes.size() <= max_rank, "a shape has at most {} dimensions, got {}", max_rank,
        sizes.size());
  constexpr int64_t most_elements = int64_t{1} << 60;  // keeps the number of bytes within 64 bits
  int64_t elements = 1;
  for (int d = 0; d < rank_; ++d) {
    check(sizes[d] >= 0, "dimension {} of a shape is {}, expected 0 or more", d, sizes[d]);
    check(sizes[d] == 0 || elements <= most_elements / sizes[d],
          "a shape [{}] has more than 2^60 elements", fmt::join(sizes, ", "));
    elements *= sizes_[d] = sizes[d];
  }
}

int64_t Shape::operator[](int dim) const {
  const int d = dim < 0 ? dim + rank_ : dim;
  check(d >= 0 && d < rank_, "dimension {} of shape {} does not exist", dim, *this);
  return sizes_[d];
}

int64_t Shape::numel(int begin, int end) const {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) product *= sizes_[d];
  return product;
}

Shape Shape::with(int dim, int64_t size) const {
  auto sizes = sizes_;
  sizes[size_t(dim < 0 ? dim + rank_ : dim)] = size;
  return Shape(std::span(sizes).first(size_t(rank_)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.sizes(), ", "));
}

}  // namespace accrue
