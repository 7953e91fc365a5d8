#pragma once

#include "core/autograd.h"
#include "core/inside.h"

namespace accrue {
namespace cpu {

// y = factor * x + beta * y, and the same with factor[0]; y may be x.
void scale(GradTarget y, View x, double factor);
void scale_by(GradTarget y, View x, View factor);

}  // namespace cpu

namespace cuda {
decltype(cpu::scale) scale;
decltype(cpu::scale_by) scale_by;
}  // namespace cuda
}  // namespace accrue
