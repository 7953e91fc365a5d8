#pragma once

#include "core/tensor.h"

namespace accrue {

// Samples side by side: what models see, and what they are to answer. Labels and masks may be
// empty views.
struct SampleViews {
  View images, labels, masks;
};
inline View view_of(const Tensor& x) { return x.defined() ? x.view() : View{}; }

// Samples of a data set, by index, as a model wants them:
//   out.images[k, :] = (all.images[index[k], :] / 255 - 0.5) / 0.5
//   out.masks[k, :] = all.masks[index[k], :] / 255
//   out.labels[k] = all.labels[index[k]]
//   samples[k] = index[k], for dropout, in a place that stays the same
// out: images and masks floating [n, ...], labels i32 [n]; all: images and masks u8 [N, ...],
// labels i32 [N]; samples and index i32 [n]; all on one device. An empty part of `out`, and empty
// samples, are left out. Throws Error on the CPU for an index out of range; on CUDA such an image
// is NaN, its mask, too, and its label -1.
void gather_samples(const SampleViews& out, View samples, const SampleViews& all, View index);

}  // namespace accrue
