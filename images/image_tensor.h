#pragma once

#include "core/tensor.h"
#include "images/image_file.h"
#include "kernels/gather_samples.h"

namespace accrue {

// An image in the form that networks take, [1, C, H, W] in `dtype` on `device`. It has the same
// bits as in a micro-batch (Encoding::pixel):
//   x[0, c, h, w] = (pixel[c, h, w] / 255 - mean[c]) / std[c].
// Its size stays; resized() (images/image_file.h) changes it. Throws Error for an image without
// pixels, and for mean and std that do not fit it.
Tensor image_tensor(const Image& image, const Normalization& normalization = {},
                    DType dtype = DType::f32, Device device = Device::cpu);

}  // namespace accrue
