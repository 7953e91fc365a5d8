#pragma once

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/detail/broadcast.h"
#include "kernels/detail/elementwise_functions.h"
#include "kernels/elementwise.h"

namespace accrue {

struct Calculation {
  Formula formula;
  double scalars[2];
};

// The values that a gradient is computed from; those that the formula does not read have no
// elements.
struct KeptValues {
  View a, b, c, y;
};

// True if dx is dy and shall hold what dy holds.
inline bool is_unchanged(const GradTarget& dx, const View& dy, const Calculation& f, int operand) {
  return dx.grad.data == dy.data && dx.beta == 0 &&
         info_of(f.formula).reads[static_cast<size_t>(operand)] == formula_list::is_passed_on;
}

namespace cpu {

// y = f(a, b, c), with operands broadcast to y; y may be one of its shape. A formula with fewer
// operands leaves the last views without elements.
void elementwise_forward(View y, View a, View b, View c, Calculation f);
// dx = sum df/dx * dy + beta * dx of operand number `operand`, over the indices at which it was
// repeated; where it was not, dx may be dy. Scratch: BroadcastSums::scratch().
void elementwise_backward(GradTarget dx, View dy, KeptValues values, View scratch, Calculation f,
                          int operand);

}  // namespace cpu

namespace cuda {
decltype(cpu::elementwise_forward) elementwise_forward;
decltype(cpu::elementwise_backward) elementwise_backward;
}  // namespace cuda

template <>
struct detail::WorkOf<cpu::elementwise_backward> {
  Work operator()(const GradTarget& dx, const View& dy, const KeptValues& values,
                  const View& scratch, const Calculation&, int) const {
    return work_of(0, dx, dy, values.a, values.b, values.c, values.y, scratch);
  }
};

}  // namespace accrue
