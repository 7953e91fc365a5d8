#pragma once

#include "core/inside.h"
#include "core/view.h"

namespace accrue {

// Updates the exponential moving average of the weights after the optimizer's step t = 1, 2, ...,
// which the outcome counts (kernels/step/step_outcome.h). Does nothing if that step was skipped.
// Views are [P].
//   average = w                                       at t = 1
//   average = average + (1 - d) * (w - average)       with d = min(decay, t / (9 + t)) after it.
// The decay grows with the number of steps, so the average of a short run does not contain its
// random beginning. TensorFlow's ExponentialMovingAverage(num_updates) does this, too; steps are
// counted as in EMAModel of Hugging Face's diffusers. Bytes moved: read average and w, write
// average: 12 P in float32.
void average_weights(View average, View w, View outcome, double decay);

// Exchanges the values of a and b [P]. Bytes moved: 16 P in float32.
void exchange(View a, View b);

}  // namespace accrue
