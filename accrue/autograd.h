#pragma once

// Differentiation: leaves, backward(), recompute().
//
//     const Tensor w = require_grad(x);
//     backward(mse_loss(relu(w), x));
//     fmt::print("{}\n", grad(w).shape());

#include "core/autograd.h"
