#pragma once

#include <cmath>

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

struct AttentionInputs {
  View q, k, v;
};
struct AttentionTargets {
  std::optional<GradTarget> dq, dk, dv;
};

struct AttentionSizes {
  int64_t N, D, C, P;

  explicit AttentionSizes(const AttentionInputs& x)
      : N(x.q.shape[0]),
        D(x.q.shape[1]),
        C(x.v.shape[1]),
        P(x.q.shape.numel(2, x.q.shape.rank())) {}
  double pairs() const { return double(N) * double(P) * double(P); }
  // The factor of the scores.
  double scale() const { return 1 / std::sqrt(static_cast<double>(D)); }
};

// ds of one score, from its probability a, da = sum_c dy * v, and its row's t = sum_c dy * y.
template <class T>
HOST_DEVICE T score_gradient(T a, T da, T t, T scale) {
  return a * (da - t) * scale;
}

}  // namespace accrue
