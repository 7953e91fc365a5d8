#include "accumulate/weighted_loss.h"

#include <cmath>

#include "core/inside.h"

namespace accrue {

void detail::check_weight(const Weight& weight, Device device) {
  const Tensor& counted = weight.on_device;
  check(weight.samples > 0, "a micro-batch of {} samples: expected 1 or more", weight.samples);
  check(counted.defined()
            ? counted.numel() == 1 && counted.dtype() == DType::f64 && counted.device() == device
            : weight.counted >= 0 && std::isfinite(weight.counted),
        "a micro-batch counts {}: expected a number that is not negative, or an f64 scalar on {}",
        counted.defined() ? fmt::format("{} {} on {}", name(counted.dtype()), counted.shape(),
                                        name(counted.device()))
                          : fmt::format("{}", weight.counted),
        name(device));
}

std::vector<View> detail::terms_of(const Loss& loss, Device device) {
  std::vector<View> views;
  for (const Tensor& term : loss.terms) {
    check(term.numel() == 1 && term.device() == device,
          "a number beside a loss is {} on {}: expected a scalar on {}", term.shape(),
          name(term.device()), name(device));
    views.push_back(term.view());
  }
  return views;
}

}  // namespace accrue
