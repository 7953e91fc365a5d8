#pragma once

#include <algorithm>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/step/step_outcome.h"

namespace accrue::detail::formula {

// The update of one weight by average_weights(), for both devices.
template <class T>
struct AverageUpdate {
  T rest;  // 1 - d

  HOST_DEVICE AverageUpdate(const StepOutcome& step, double decay) {
    const double t = double(step.steps), grown = t / (9 + t);
    rest = T(t > 1 ? 1 - (grown < decay ? grown : decay) : 1);
  }
  HOST_DEVICE void operator()(T& average, T w) const {
    average = rest == 1 ? w : average + rest * (w - average);
  }
};

struct Exchange {
  template <class T>
  HOST_DEVICE void operator()(T& a, T& b) const {
    const T a_before = a;
    a = b;
    b = a_before;
  }
};

}  // namespace accrue::detail::formula
