#pragma once

// Tensors, their dtypes, shapes and devices.
//
//     const Tensor t = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
//     const Tensor row = t.slice(0, 1);  // shares the storage
//     fmt::print("{} {}, {} B\n", t.shape(), row.shape(), t.bytes());

#include "core/tensor.h"
