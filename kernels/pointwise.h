#pragma once

#include "core/tensor.h"

namespace accrue {

// y = f(x), element by element, for x of any shape; f is one of
//   relu        max(x, 0)
//   leaky_relu  x > 0 ? x : slope * x
//   gelu        x * Phi(x), Phi the standard normal distribution (Hendrycks & Gimpel 2016, exact)
//   sigmoid     1 / (1 + exp(-x))
//   tanh        tanh(x)
//   silu        x * sigmoid(x)
// Backward: dx = dy * f'(x). relu, leaky_relu, sigmoid and tanh keep y and compute f' from it;
// gelu and silu keep x. Those that keep y write it over x when they were handed its last
// reference (relu(std::move(x))); every backward writes dx over dy where it can.
// leaky_relu throws Error unless slope > 0 (the sign of x is read from y).
Tensor relu(Tensor x);
Tensor leaky_relu(Tensor x, double slope = 0.01);
Tensor gelu(const Tensor& x);
Tensor sigmoid(Tensor x);
Tensor tanh(Tensor x);
Tensor silu(const Tensor& x);

}  // namespace accrue
