#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace accrue {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

// The safetensors format (https://github.com/huggingface/safetensors): the header's length as a
// little-endian 64-bit integer, the header in JSON,
//   {"__metadata__": {name: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [b, e]}},
// then the elements, little-endian and row-major; the offsets cover them without hole or overlap.
// dtypes: F32, F64, I32, U8.

// Writes atomically (data/atomic_file.h). The elements start at a multiple of 8 and tensors of
// wider elements come first, so that every tensor is aligned for its dtype. Throws Error for a
// tensor that is not on the CPU, for a name that is empty, taken or not UTF-8, and when the file
// cannot be written.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});

// Reads a whole file into tensors on the CPU, in the order of their data. Nothing is allocated for
// elements before the header is known to agree with the size of the file. Throws Error, naming the
// file, what was expected and what was found, for anything that the format does not allow or that
// accrue cannot hold (another dtype, more than five dimensions).
NamedTensors read_safetensors(const std::filesystem::path& path,
                              Category category = Category::parameters,
                              Metadata* metadata = nullptr);

}  // namespace accrue
