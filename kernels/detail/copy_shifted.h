#pragma once

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

struct Shift {
  int64_t rows, columns;
};

namespace cpu {

// target[q, h, w] = source[q, h + shift.rows, w + shift.columns] + beta * target[q, h, w], where
// pixels outside the source count as zero. A negative shift pads before the first pixel, and a
// positive one crops there; the target's size decides where rows and columns end. Both are [N, C,
// H, W], and q runs over N * C planes.
void copy_shifted(GradTarget target, View source, Shift shift);

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::copy_shifted> {
  Work operator()(const GradTarget& target, const View& source, const Shift&) const {
    const double read = std::min(bytes_of(source), bytes_of(target.grad));
    return {.bytes = bytes_of(target) + read};
  }
};

namespace cuda {
decltype(cpu::copy_shifted) copy_shifted;
}  // namespace cuda
}  // namespace accrue
