#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/pad.h"

namespace accrue {

// A dimension of n elements that gets a border: element i of [0, padded()) is a copy of source(i).
struct BorderedDimension {
  int64_t n = 1, before = 0, after = 0;
  Border border = Border::edge;

  HOST_DEVICE int64_t padded() const { return before + n + after; }

  HOST_DEVICE int64_t source(int64_t i) const {
    const int64_t j = i - before;
    if (0 <= j && j < n) return j;
    if (border == Border::edge) return j < 0 ? 0 : n - 1;
    if (border == Border::wrap) return j < 0 ? j + n : j - n;
    return j < 0 ? -j : 2 * (n - 1) - j;
  }

  // The way back: how many elements are copies of j, and which one is number k of them, from the
  // first to the last.
  HOST_DEVICE int64_t copies(int64_t j) const {
    if (border == Border::edge) return 1 + (j == 0 ? before : 0) + (j == n - 1 ? after : 0);
    return 1 + has_lower(j) + has_upper(j);
  }
  HOST_DEVICE int64_t copy(int64_t j, int64_t k) const {
    if (border == Border::edge) return (j == 0 ? 0 : before + j) + k;
    if (has_lower(j)) {
      if (k == 0) return lower(j);
      --k;
    }
    return k == 0 ? before + j : upper(j);
  }

 private:
  // The copy in front of x and the one behind it, if they are there. The element itself would be
  // its own mirror image at the ends.
  HOST_DEVICE int64_t lower(int64_t j) const {
    return before + (border == Border::wrap ? j - n : -j);
  }
  HOST_DEVICE int64_t upper(int64_t j) const {
    return before + (border == Border::wrap ? j + n : 2 * (n - 1) - j);
  }
  HOST_DEVICE bool has_lower(int64_t j) const { return 0 <= lower(j) && lower(j) < before; }
  HOST_DEVICE bool has_upper(int64_t j) const {
    return before + n <= upper(j) && upper(j) < padded();
  }
};

// All dimensions of an array, neighbours without a border as one.
struct BorderedBox {
  int rank = 0;
  std::array<BorderedDimension, Shape::max_rank> dimensions{};

  // Appends an innermost dimension.
  void add(const BorderedDimension& next);
};

namespace cpu {

// y[i] = x[source(i)]
void pad_border(View y, View x, const BorderedBox& box);
// dx[j] = sum of dy[i] over the copies i of j + beta * dx[j]
void pad_border_backward(GradTarget dx, View dy, const BorderedBox& box);

}  // namespace cpu

namespace cuda {
decltype(cpu::pad_border) pad_border;
decltype(cpu::pad_border_backward) pad_border_backward;
}  // namespace cuda

}  // namespace accrue
