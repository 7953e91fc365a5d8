#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

// The weights of classes. They are few and known before any kernel runs, so kernels take them by
// value.
struct ClassWeights {
  static constexpr int64_t most = 64;
  std::array<double, most> of;

  // Class c's, in the type that losses are computed in.
  template <class W>
  HOST_DEVICE W in(int64_t c) const {
    return c < most ? W(of[size_t(c)]) : W(1);
  }
};

// Returns the given weights, or 1 for every class if none are given. Throws Error unless there is
// one for each of the C classes, in [0, 1e6].
inline ClassWeights class_weights_of(std::string_view op, std::span<const double> given,
                                     int64_t C) {
  ClassWeights weights;
  weights.of.fill(1);
  if (given.empty()) return weights;
  check(static_cast<int64_t>(given.size()) == C && C <= ClassWeights::most,
        "[{}] {} class weights for {} classes: expected one for each, at most {}", op, given.size(),
        C, ClassWeights::most);
  for (size_t c = 0; c < given.size(); ++c) {
    check(given[c] >= 0 && given[c] <= 1e6,
          "[{}] the weight of class {} is {}: expected it in [0, 1e6]", op, c, given[c]);
    weights.of[c] = given[c];
  }
  return weights;
}

}  // namespace accrue
