#pragma once

#include "layers/models.h"

namespace accrue::app {

// Floating-point operations of the matrix products and convolutions of one training sample, an
// image [.., H, W] of one channel:
// forward 2 per weight and use, backward the same for the weights and again for the input, except
// for the first layer's input. Everything else is memory traffic.
double training_flops_per_sample(const ModelOptions& model, const Shape& image = {28, 28});

}  // namespace accrue::app
