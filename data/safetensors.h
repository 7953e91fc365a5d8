#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Tensors in the order in which they lie in a file, and what else a file says.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

// The safetensors format (https://github.com/huggingface/safetensors): the header's length as a
// little-endian 64-bit integer, the header in JSON,
//   {"__metadata__": {name: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [b, e]}},
// then the elements, little-endian and row-major; the offsets cover them without hole or overlap.
// dtypes: F32, F64, F16, BF16, I32, U8.

namespace detail {

// Uses or sets some elements of a tensor: `piece` [n] on the cpu, of the tensor's dtype, has those
// from `first` on, and at most 64 KiB of them.
inline constexpr size_t piece_bytes = 64 << 10;
using UsePiece = std::function<void(const std::string& name, int64_t first, const Tensor& piece)>;

}  // namespace detail

// Writes atomically (data/atomic_file.h). The elements start at a multiple of 8 and tensors of
// wider elements come first, so that every tensor is aligned for its dtype. A tensor on the meta
// device stands for elements that `fill` sets, piece after piece. Throws Error for a tensor that is
// on another device than these, for a name that is empty, taken or not UTF-8, and when the file
// cannot be written.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {}, const detail::UsePiece& fill = {});

namespace detail {

// True for the names of the tensors that are wanted; the others may be of any dtype.
using TensorFilter = std::function<bool(const std::string& name)>;

}  // namespace detail

// Reads a file's tensors (all, or the wanted) to the CPU, in the order of their data. It allocates
// memory for elements only if the header agrees with the size of the file. Throws Error, naming the
// file, what was expected and what was found, for anything that the format does not allow or that
// accrue cannot hold (another dtype, more than eight dimensions).
NamedTensors read_safetensors(const std::filesystem::path& path,
                              Category category = Category::parameters,
                              Metadata* metadata = nullptr,
                              const detail::TensorFilter& wanted = {});

namespace detail {

// A file's description of itself, without its elements. Throws Error as above.
struct SafetensorsHeader {
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
  };
  std::vector<Entry> entries;  // the wanted, in the order of their data
  Metadata metadata;
};
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          const TensorFilter& wanted = {});
// The metadata of a file with tensors of any types.
Metadata read_safetensors_metadata(const std::filesystem::path& path);

// Calls `use` with the elements of every wanted tensor, piece after piece.
void read_safetensors_pieces(const std::filesystem::path& path, const TensorFilter& wanted,
                             const UsePiece& use);

// Reads the elements of exactly these tensors into them, on whichever device they are; this takes
// no other memory for one on the cpu. Those of a tensor on the meta device go to `use`, piece after
// piece. Throws Error as above, and, naming every difference, if names, shapes or dtypes differ,
// before any element has changed.
void read_safetensors_into(const std::filesystem::path& path, const NamedTensors& tensors,
                           const UsePiece& use = {});

}  // namespace detail

}  // namespace accrue
