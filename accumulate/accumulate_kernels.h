#pragma once

#include "accumulate/accumulate.h"
#include "kernels/backend.h"

namespace accrue {

// Calls body.operator()<T, G>(), where T is the type of a sum and G the type of its addends.
template <class Body>
void dispatch_sum(View sum, View g, Body&& body) {
  if (sum.dtype == DType::f64 && g.dtype == DType::f32)
    return body.template operator()<double, float>();
  dispatch_floating(g.dtype, [&]<class G>() { body.template operator()<Wide<G>, G>(); });
}

}  // namespace accrue
