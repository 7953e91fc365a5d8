#pragma once

#include "kernels/work.h"

namespace accrue {

// An activation that an op with a bias applies while its result is still in cache.
enum class Activation { none, relu };

namespace cpu {

// dz = dy * relu'(y), over dy.
void relu_backward_over(View dy, View y);

}  // namespace cpu

template <>
struct WorkOf<cpu::relu_backward_over> {
  Work operator()(const View& dy, const View& y) const {
    return {.bytes = 2 * bytes_of(dy) + bytes_of(y)};
  }
};

namespace cuda {
decltype(cpu::relu_backward_over) relu_backward_over;
}  // namespace cuda
}  // namespace accrue
