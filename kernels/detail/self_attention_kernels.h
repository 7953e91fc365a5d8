#pragma once

#include <cmath>

#include "core/host_device.h"
#include "core/view.h"

namespace accrue {

struct AttentionSizes {
  int64_t N, D, C, P;

  AttentionSizes(const Shape& q, const Shape& v)
      : N(q[0]), D(q[1]), C(v[1]), P(q.numel(2, q.rank())) {}
  // What the scores are multiplied by.
  double scale() const { return 1 / std::sqrt(static_cast<double>(D)); }
};

// ds of one element from its probability a, da = sum_c dy * v, and its row's t = sum_c dy * y.
template <class T>
HOST_DEVICE T score_gradient(T a, T da, T t, T scale) {
  return a * (da - t) * scale;
}

}  // namespace accrue
