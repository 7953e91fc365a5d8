#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

// The offsets of an element in the array that is written and in the one that is read.
struct Offsets {
  int64_t to, from;
};

// A box of elements (i_0, i_1, ...), 0 <= i_d < sizes[d], and where they lie in two arrays:
// at to_begin + sum_d i_d * to[d] and at from_begin + sum_d i_d * from[d].
struct StridedBox {
  static constexpr int most_dimensions = 2 * Shape::max_rank;

  int rank = 1;
  std::array<int64_t, most_dimensions> sizes{1}, to{1}, from{1};
  int64_t to_begin = 0, from_begin = 0;

  // Appends an innermost dimension. Neighbours that both arrays hold as one become one.
  void add(int64_t size, int64_t to_stride, int64_t from_stride);
  int64_t numel() const {
    int64_t product = 1;
    for (int d = 0; d < rank; ++d) product *= sizes[d];
    return product;
  }
  // True if element i of one array is element i of the other.
  bool moves_nothing() const {
    return rank == 1 && (sizes[0] == 1 || (to[0] == 1 && from[0] == 1)) && to_begin == from_begin;
  }
  // The way back: reads what this one writes. Its dimensions are ordered for that.
  StridedBox reversed() const;
  // Two boxes that are this one together.
  std::pair<StridedBox, StridedBox> halves() const;

  // Where element `index` of the row-major order lies. Divides by the sizes of inner dimensions
  // alone.
  template <class Index>
  HOST_DEVICE Offsets at(Index index) const {
    Offsets place{to_begin, from_begin};
    for (int d = rank - 1; d > 0; --d) {
      const Index size = static_cast<Index>(sizes[d]), rest = index / size;
      const auto i = static_cast<int64_t>(index - rest * size);
      place.to += i * to[d];
      place.from += i * from[d];
      index = rest;
    }
    place.to += static_cast<int64_t>(index) * to[0];
    place.from += static_cast<int64_t>(index) * from[0];
    return place;
  }
};

// A dimension of an array into which another is placed: elements first, first + step, ..., `count`
// of them, are copies of those that lie `from` apart.
struct PlacedDimension {
  int64_t size, first, step, count, from;

  HOST_DEVICE bool is_full() const { return first == 0 && step == 1 && count == size; }
  // The number of the element that is copied to i; less than 0 or at least `count` if there is
  // none.
  HOST_DEVICE int64_t source(int64_t i) const {
    const int64_t distance = i - first;
    if (step == 1 || distance < 0) return distance;
    return distance % step == 0 ? distance / step : -1;
  }
};

struct Placement {
  int rank = 0;
  std::array<PlacedDimension, Shape::max_rank> dimensions{};
  int64_t from_begin = 0;

  // Appends an innermost dimension. Neighbours become one where they can.
  void add(const PlacedDimension& next);
  int64_t numel_copied() const {
    int64_t product = 1;
    for (int d = 0; d < rank; ++d) product *= dimensions[d].count;
    return product;
  }
};

// The elements of a view as bits, whatever they mean.
template <class Bits>
Bits* bits_of(const View& x) {
  check(x.data || x.numel() == 0, "a kernel asked for the elements of {} {} on {}: it has none",
        name(x.dtype), x.shape, name(x.device));
  return static_cast<Bits*>(x.data);
}

// Calls body.operator()<Bits>() with the unsigned integer of an element's size.
template <class Body>
void dispatch_bits(DType dtype, Body&& body) {
  switch (size_of(dtype)) {
    case 1: return body.template operator()<uint8_t>();
    case 2: return body.template operator()<uint16_t>();
    case 4: return body.template operator()<uint32_t>();
    default: return body.template operator()<uint64_t>();
  }
}

namespace cpu {

// to[t] = from[f] + beta * to[t] for the elements of the box, of which no two are one of `to`.
// Where beta is 0, elements may be of any dtype.
void copy_strided(GradTarget to, View from, const StridedBox& box);

// All elements of `to`: those that have a source in `from` are copies, the others are `value`,
// which is rounded to the dtype.
void place(View to, View from, const Placement& placement, double value);

// to[t] = sum_r from[f + r] + beta * to[t] for the elements of the box, where r goes over the
// offsets in `from` that `terms` has, in row-major order.
void sum_strided(GradTarget to, View from, const StridedBox& box, const StridedBox& terms);

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::copy_strided> {
  Work operator()(const GradTarget& to, const View& from, const StridedBox& box) const {
    const double times = to.beta == 0 ? 2 : 3;
    return {.bytes = times * double(box.numel()) * double(size_of(from.dtype))};
  }
};

template <>
struct detail::WorkOf<cpu::place> {
  Work operator()(const View& to, const View&, const Placement& placement, double) const {
    return {.bytes = bytes_of(to) + double(placement.numel_copied()) * double(size_of(to.dtype))};
  }
};

template <>
struct detail::WorkOf<cpu::sum_strided> {
  Work operator()(const GradTarget& to, const View& from, const StridedBox& box,
                  const StridedBox& terms) const {
    const double read = double(box.numel()) * double(terms.numel());
    return {.flops = read, .bytes = bytes_of(to) + read * double(size_of(from.dtype))};
  }
};

namespace cuda {
decltype(cpu::copy_strided) copy_strided;
decltype(cpu::place) place;
decltype(cpu::sum_strided) sum_strided;
}  // namespace cuda

}  // namespace accrue
