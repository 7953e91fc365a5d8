#pragma once

#include "core/view.h"

namespace accrue {

// Samples of a data set, by index, as a model wants them:
//   images[k, :] = (all_images[index[k], :] / 255 - 0.5) / 0.5        labels[k] =
//   all_labels[index[k]] samples[k] = index[k], for dropout, in a place that stays the same; may be
//   empty
// images floating [n, ...], labels, samples and index i32 [n], all_images u8 [N, ...], all_labels
// i32 [N], all on one device. Throws Error on the CPU for an index out of range; on CUDA such an
// image is NaN and its label -1.
void gather_samples(View images, View labels, View samples, View all_images, View all_labels,
                    View index);

}  // namespace accrue
