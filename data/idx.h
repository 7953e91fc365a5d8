#pragma once

#include <filesystem>

#include "core/tensor.h"

namespace accrue {

// IDX, the format of the MNIST files (http://yann.lecun.com/exdb/mnist/), plain or gzip. The
// content tells which, not the name. Its bytes are:
//   0, 1: zero; 2: 08, for unsigned bytes; 3: the number of dimensions R;
//   R sizes as big-endian 32-bit integers; then the elements, row-major.
//
// The elements are read straight into the tensor (Category::data), which is allocated only if the
// header's sizes are possible for a file of this size. Throws Error if the file cannot be read, is
// not IDX of this kind, is too short or has bytes left over. The error names the file, the offset,
// the expected and the found value.

// R = 3: images, as u8 [N, 1, H, W].
Tensor read_idx_images(const std::filesystem::path& path);
// R = 1: labels, as i32 [N], each from 0 to 255.
Tensor read_idx_labels(const std::filesystem::path& path);

}  // namespace accrue
