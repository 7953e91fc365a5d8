#pragma once

#include "train/training_options.h"

namespace accrue {

// Floating-point operations in the matrix products and convolutions for one training sample, a
// tensor [1, ...] of this shape: 2 per weight and use in forward, and in backward as many for the
// weights and as many again for the input, except for the first layer's input. Everything else is
// memory traffic.
double training_flops_per_sample(const ModelFactory& model, const Shape& sample);
// As above for networks that train each other, in the forward and backward of every player's loss,
// for a sample of `data`. This is an upper estimate, since frozen weights have no gradient.
double training_flops_per_sample(const std::vector<PlayerOptions>& players, const Dataset& data);

}  // namespace accrue
