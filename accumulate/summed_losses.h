#pragma once

#include <span>
#include <string>

#include "accumulate/weighted_loss.h"

namespace accrue {

// A loss of a micro-batch beside others, by its name in errors: a mean over what `weight` counts,
// times a factor.
struct NamedLoss {
  std::string name;
  Tensor value;
  Weight weight;
  double factor = 1;
};

// The sum of losses that are means of the same weight, and that weight, for Window::backward().
// The losses themselves are the terms beside it, for the report.
struct SummedLoss {
  Loss loss;
  Weight weight;
};

// sum_k factor_k * value_k. A window divides its gradients once, by one weight. So two losses that
// count differently, such as one over samples and one over tokens, would not be a mean over the
// window in every split. Throws Error for such, naming them: unless all weights are of as many
// samples, and the same number, or the same tensor on the device.
SummedLoss sum_of_losses(std::span<const NamedLoss> losses);

}  // namespace accrue
