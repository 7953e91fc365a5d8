#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"

namespace accrue::test {

// The fused activations, written plainly in double.
inline double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::relu: return std::max(x, 0.0);
    case Activation::tanh: return std::tanh(x);
    case Activation::none: break;
  }
  return x;
}

}  // namespace accrue::test
