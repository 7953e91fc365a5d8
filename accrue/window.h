#pragma once

// The window: micro-batches whose gradients add up to one step.
//
//     Window window(optimizer, ScheduleOptions{.base = 1e-3}, {.effective_batch_size = 64});
//     window.backward(cross_entropy(model(x), labels), x.size(0));  // for each micro-batch
//     const StepReport step = window.step();

#include "accumulate/summed_losses.h"
#include "accumulate/window.h"
