#pragma once

#include <cstdint>

namespace accrue {

// The factor on the loss's gradient in backward, divided out in the step, that lifts gradients over
// float16's smallest numbers (Micikevicius et al., "Mixed Precision Training", arXiv 1710.03740).
// If it is dynamic, it follows the rules of PyTorch's GradScaler: a window whose gradient is not
// finite is skipped and multiplies the scale by `backoff`, down to 1; `interval` windows in a row
// without such a gradient multiply it by `growth`. With a hysteresis h only the h-th such window
// since the last growth (as in Megatron-LM), or since the last backoff, backs off.
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
