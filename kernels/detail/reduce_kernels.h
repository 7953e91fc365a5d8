#pragma once

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/detail/reduction.h"

namespace accrue {

// A candidate for the largest of some terms. A NaN is larger than all but an earlier one.
template <class W>
HOST_DEVICE bool is_larger(W x, W best) {
  return x > best || (x != x && best == best);
}

// The largest or the smallest: of terms times 1 or -1.
enum class Extreme { largest, smallest };
template <class W>
HOST_DEVICE W sign_of(Extreme which) {
  return which == Extreme::largest ? W(1) : W(-1);
}

// A dimension of x [outer, size, inner].
struct Dimension {
  int64_t outer, size, inner;

  Dimension(const Shape& x, int dim)
      : outer(x.numel(0, dim)), size(x[dim]), inner(x.numel(dim + 1, x.rank())) {}
};

enum class Direction { from_first, from_last };

}  // namespace accrue
