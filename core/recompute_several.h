#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace accrue::detail {

using SegmentOfSeveral = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// recompute() (core/autograd.h) of a segment with several results: backward runs it a second time
// once it has the gradients of all results that it reaches. Results may share their elements, as a
// tensor and its reshape do, may be inputs, and may have no gradient. An op whose result depends on
// a variable must say so to record() in the first run, too, where results of the segment want no
// gradients: backward throws Error if it did not.
std::vector<Tensor> recompute_several(SegmentOfSeveral segment, const std::vector<Tensor>& inputs);

}  // namespace accrue::detail
