#pragma once

#include <string>
#include <vector>

#include "networks/domain_file.h"

namespace accrue::detail {

// Compares the answers of an output of the file with onnxruntime's, which runs in a python3
// process, for samples of this shape. Both compute in float32, from the file's values. They may
// differ by 16 times the rounding of accrue's answers y, which is
//   max |y - y in float64| + max |y| * 2^-23
// Returns a sentence with the largest difference. Throws Error if it is larger, and if python3 or
// onnxruntime is missing.
std::string verified(const NetworkFile& network, const std::vector<std::string>& trained,
                     const std::string& output, const Shape& sample);

}  // namespace accrue::detail
