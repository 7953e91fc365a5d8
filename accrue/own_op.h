#pragma once

// Everything that your own op needs; its CUDA kernels also include <accrue/core/launch.cuh>. A
// program that only trains does not need these names, so accrue.h leaves them in accrue::detail.

#include "kernels/backend.h"

namespace accrue {

using detail::Backward;
using detail::blend;
using detail::check;
using detail::claim_grad;
using detail::claim_grad_over;
using detail::claim_grads;
using detail::dispatch_floating;
using detail::Edge;
using detail::fail;
using detail::GradTarget;
using detail::LossBackward;
using detail::LossSeed;
using detail::record;
using detail::record_loss;
using detail::store;
using detail::View;
using detail::Wide;
using detail::with_beta;

}  // namespace accrue
