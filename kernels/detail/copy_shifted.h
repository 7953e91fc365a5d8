#pragma once

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

struct Shift {
  int64_t rows, columns;
};

namespace cpu {

// target[q, h, w] = source[q, h + shift.rows, w + shift.columns] + beta * target[q, h, w], and zero
// in place of a pixel that source [Q, H, W] does not have: a negative shift pads before the first
// pixel, a positive one crops there. Behind the last one the target's size decides. Both
// [N, C, H, W].
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
