#pragma once

#include "kernels/backend.h"
#include "kernels/pool.h"

namespace accrue {

// Whether v takes the window from the best pixel before it: the first of equal ones stays, and a
// NaN comes through.
template <class T>
HOST_DEVICE bool wins(T v, T best) {
  return (v > best) | (v != v);
}

}  // namespace accrue
