#pragma once

// Losses.
//
//     const Tensor loss = cross_entropy(x, labels);  // a mean over the samples
//     backward(loss);

#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/losses.h"
#include "kernels/mask_score.h"
#include "kernels/weighted_cross_entropy.h"
#include "kernels/weighted_losses.h"
