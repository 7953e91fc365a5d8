#pragma once

#include <cstdint>

namespace accrue {

// A factor on the loss's gradient in backward, which lifts gradients above float16's smallest
// numbers (Micikevicius et al., "Mixed Precision Training", arXiv 1710.03740). The step divides by
// it.
//
// A dynamic scale follows the rules of PyTorch's GradScaler. A window whose gradient is not finite
// is skipped and multiplies the scale by `backoff`, down to 1. After `interval` windows in a row
// with finite gradients, the scale is multiplied by `growth`. With a hysteresis h, the scale backs
// off only at the h-th window without a finite gradient since it last changed (as in Megatron-LM).
struct LossScale {
  double initial = 1, growth = 1, backoff = 1;
  int64_t interval = 2000, hysteresis = 1;

  LossScale(double constant = 1) : initial(constant) {}
  static LossScale dynamic() {
    LossScale scale(65536);
    scale.growth = 2;
    scale.backoff = 0.5;
    return scale;
  }
  bool is_dynamic() const { return growth != 1 || backoff != 1; }
};

}  // namespace accrue
