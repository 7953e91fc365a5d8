#pragma once

#include "accumulate/ladder/arrays.h"
#include "accumulate/ladder/rung.h"

namespace accrue::ladder {

// The rungs of all ladders, preceded by a copy to compare them with. They refer to `arrays`, which
// must outlive them.
std::vector<Rung> all_ladders(const Arrays& arrays, int64_t micro_batch_size);

// sum += g / K, from scalar kernels with a temporary to one launch for all parameters.
std::vector<Rung> accumulate_ladder(const Arrays& arrays);

// Accumulation without extra cost: dw = dz^T x + beta * dw of every linear layer, beta 1 against
// beta 0.
std::vector<Rung> gemm_ladder(const Arrays& arrays, int64_t micro_batch_size);

// Dividing by the loss scale and testing whether the gradient is finite: as separate passes,
// against work fused into other passes.
std::vector<Rung> scaling_ladder(const Arrays& arrays);

// Adam and SGD, from tensor operations to one kernel for all parameters.
std::vector<Rung> optimizer_ladder(const Arrays& arrays);

// Half an ulp of 1: the largest relative error of one operation in float32.
inline constexpr double rounding = 0x1p-24;

// Calls body(p) for every parameter, one after the other.
template <class Body>
auto for_each_parameter(const Arrays& arrays, Body body) {
  return [&arrays, body] {
    for (size_t p = 0; p < arrays.layout.size(); ++p) body(p);
  };
}

}  // namespace accrue::ladder
