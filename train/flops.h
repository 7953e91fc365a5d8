#pragma once

#include "train/training_options.h"

namespace accrue {

// Floating-point operations of the matrix products and convolutions of one training sample, which
// the model sees as a tensor [1, ...] of this shape: forward 2 per weight and use, backward the
// same for the weights and again for the input, except for the first layer's input. Everything else
// is memory traffic.
double training_flops_per_sample(const ModelFactory& model, const Shape& sample);
// Likewise of networks that train each other, in the forward and backward of every player's loss:
// an upper estimate, as frozen weights have no gradient. Samples of the kind of `data`.
double training_flops_per_sample(const std::vector<PlayerOptions>& players, const Dataset& data);

}  // namespace accrue
