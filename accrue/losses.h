#pragma once

// Losses, and sums of scores.

#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/losses.h"
#include "kernels/mask_score.h"
