#pragma once

#include <vector>

#include "core/tensor.h"

namespace accrue {

// Joins tensors x_0, x_1 and so on along `dim`; a negative one counts from the end. With [N, C_k,
// H, W] and dim 1, y [N, sum_k C_k, H, W] holds x_k in the channels from sum_{j<k} C_j on. A tensor
// may occur more than once.
// Backward: dx_k is that part of dy. Keeps nothing.
// Throws Error unless there is at least one tensor and all agree in every other dimension.
Tensor concat(const std::vector<Tensor>& tensors, int dim);

}  // namespace accrue
