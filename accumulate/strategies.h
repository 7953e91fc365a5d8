#pragma once

#include <memory>

#include "accumulate/accumulator.h"

namespace accrue {

// The accumulator of each strategy (window_options.h), which is in the .cpp of its name. Each
// throws Error for an optimizer that it cannot work with.
using MakeAccumulator = std::unique_ptr<Accumulator>(Optimizer& optimizer, const Decision& decision,
                                                     const WindowOptions& options);
MakeAccumulator fused_accumulator, separate_accumulator, moments_accumulator,
    in_backward_accumulator;

}  // namespace accrue
