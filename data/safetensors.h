#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Tensors by name in the order of a file, and the file's other texts.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

// The safetensors format (https://github.com/huggingface/safetensors): the header's length as a
// little-endian 64-bit integer, the header in JSON, and the elements, little-endian and row-major.
// The offsets cover the elements without holes or overlaps. The header is
//   {"__metadata__": {name: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [b, e]}}
// with the dtypes F32, F64, F16, BF16, I32 and U8.

namespace detail {

// Uses or sets some elements of a tensor. `piece` [n], on the cpu and of the tensor's dtype, holds
// the elements from `first` on, at most 64 KiB.
inline constexpr size_t piece_bytes = 64 << 10;
using UsePiece = std::function<void(const std::string& name, int64_t first, const Tensor& piece)>;

}  // namespace detail

// Writes atomically (data/atomic_file.h). The elements start at a multiple of 8, and tensors with
// wider elements come first, so every tensor is aligned for its dtype. For a tensor on the meta
// device, `fill` sets the elements, one piece after another. Throws Error for a tensor on any
// device but cpu and meta, for a name that is empty, duplicate or not UTF-8, and if the file cannot
// be written.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {}, const detail::UsePiece& fill = {});

namespace detail {

// True for the names of the tensors to read; other tensors may have any dtype.
using TensorFilter = std::function<bool(const std::string& name)>;

}  // namespace detail

// Reads a file's tensors, all or the wanted ones, to the CPU, in the order of their data. Allocates
// memory for elements only if the header agrees with the file's size. Throws Error for anything
// that the format does not allow or that accrue cannot hold (another dtype, more than five
// dimensions). The error names the file, the expected and the found value.
NamedTensors read_safetensors(const std::filesystem::path& path,
                              Category category = Category::parameters,
                              Metadata* metadata = nullptr,
                              const detail::TensorFilter& wanted = {});

namespace detail {

// The header of a file, without its elements. Reading it throws Error as above.
struct SafetensorsHeader {
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
  };
  std::vector<Entry> entries;  // the wanted tensors, in the order of their data
  Metadata metadata;
};
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          const TensorFilter& wanted = {});
// The metadata of a file, whose tensors may have any dtype.
Metadata read_safetensors_metadata(const std::filesystem::path& path);

// Calls `use` with the elements of every wanted tensor, one piece after another.
void read_safetensors_pieces(const std::filesystem::path& path, const TensorFilter& wanted,
                             const UsePiece& use);

// Reads the elements of exactly these tensors into them, on any device. A tensor on the cpu needs
// no other memory. The elements of a tensor on the meta device go to `use`, one piece after
// another. Throws Error as above, and if names, shapes or dtypes differ; that error lists all
// differences and comes before any element changes.
void read_safetensors_into(const std::filesystem::path& path, const NamedTensors& tensors,
                           const UsePiece& use = {});

}  // namespace detail

}  // namespace accrue
