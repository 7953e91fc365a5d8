#pragma once

#include <filesystem>

#include "core/tensor.h"

namespace accrue {

// IDX, the format of the MNIST files, plain or gzip (told by the content, not by the name):
//   bytes 0, 1: zero; byte 2: 08, unsigned bytes; byte 3: number of dimensions R;
//   R sizes as big-endian 32-bit integers; then the elements, row-major.
// Source: http://yann.lecun.com/exdb/mnist/.
//
// The elements are read straight into the tensor (Category::data), which is allocated only if the
// sizes in the header are possible for a file of this size.
// Throws Error, naming the file, the offset, what was expected and what was found, when the file
// cannot be read, is not an IDX file of this kind, is too short or has bytes left over.

// R = 3: images, as u8 [N, 1, H, W].
Tensor read_idx_images(const std::filesystem::path& path);
// R = 1: labels, as i32 [N], each from 0 to 255.
Tensor read_idx_labels(const std::filesystem::path& path);

}  // namespace accrue
