#pragma once

#include "accumulate/ladder/arrays.h"
#include "accumulate/ladder/rung.h"

namespace accrue::ladder {

// The rungs of all ladders, after a copy to compare them with. They refer to `arrays`, which must
// outlive them.
std::vector<Rung> all_ladders(const Arrays& arrays, int64_t micro_batch_size);

// sum += g / K, from a temporary and scalar kernels to one launch for all parameters.
std::vector<Rung> accumulate_ladder(const Arrays& arrays);

// Accumulation for nothing: dw = dz^T x + beta * dw of every linear layer, beta 1 against beta 0.
std::vector<Rung> gemm_ladder(const Arrays& arrays, int64_t micro_batch_size);

// Dividing by the loss scale, and telling whether the gradient is finite: passes of their own
// against what comes along in another.
std::vector<Rung> scaling_ladder(const Arrays& arrays);

// Adam and SGD, from tensor operations to one kernel for all parameters.
std::vector<Rung> optimizer_ladder(const Arrays& arrays);

// half an ulp of 1: what one operation in float32 is off by, relatively
inline constexpr double rounding = 0x1p-24;

// Calls body(p) for every parameter, one after the other.
template <class Body>
auto for_each_parameter(const Arrays& arrays, Body body) {
  return [&arrays, body] {
    for (size_t p = 0; p < arrays.layout.size(); ++p) body(p);
  };
}

}  // namespace accrue::ladder
