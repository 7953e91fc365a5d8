#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/shape.h"
#include "data/mapped_file.h"
#include "kernels/quantized_blocks.h"

namespace accrue::detail {

// A tensor of a GGUF file. Its rows, along the last dimension, are whole blocks.
struct GgufTensor {
  std::string name;
  Shape shape;  // outermost first: the reverse of the file's
  DType type;
  // Points into the mapped file, and is aligned for the structure of the type.
  std::span<const std::byte> elements;
};

// Reads a little-endian file of llama.cpp's format GGUF, version 2 or 3:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The file is mapped into memory. The
// tensors and texts that this object returns point into it and live as long as the object. Throws
// Error for content that the format does not allow, and for tensors of a type that
// kernels/quantized_blocks.h does not have. The error names the file, the key or tensor, the
// expected and the found value.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  // The value of a key, or nothing if the file does not have the key. Each throws Error if the
  // value has another type. integer() takes integers of any width, and number() also floating
  // point.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // The value of a key, of any of these types; nothing for an array.
  using Single = std::variant<int64_t, double, bool, std::string_view>;
  std::optional<Single> any(std::string_view key) const;
  // Arrays of these types.
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  // The same for a key that the file must have: throws Error if it does not.
  int64_t required_integer(std::string_view key) const { return required(key, integer(key)); }
  double required_number(std::string_view key) const { return required(key, number(key)); }
  std::string_view required_text(std::string_view key) const { return required(key, text(key)); }
  std::vector<std::string_view> required_texts(std::string_view key) const {
    return required(key, texts(key));
  }
  // The bytes of a GGUF file without tensors, with only the keys that begin with `prefix`.
  std::string only_keys(std::string_view prefix) const;
  // The bytes of the same keys and their values alone, one after another as in a file.
  std::string bytes_of_keys(std::string_view prefix) const;
  // All keys, sorted.
  std::vector<std::string_view> keys() const;

  // All tensors, in the file's order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // The tensor of this name; null if there is none.
  const GgufTensor* find_tensor(std::string_view name) const;
  // As find_tensor(), but throws Error if there is none.
  const GgufTensor& tensor(std::string_view name) const;

 private:
  class Reader;
  // A single value, or an array of values, as stored in the file.
  struct Value {
    uint32_t type;  // of the value, or of each in the array
    bool is_array;
    uint64_t count;
    std::span<const std::byte> content;
  };

  const Value* find(std::string_view key) const;
  template <class T>
  std::optional<T> single(std::string_view key) const;
  template <class T>
  std::optional<std::vector<T>> array(std::string_view key) const;
  template <class T>
  std::vector<T> decoded(std::string_view key, const Value& value) const;
  [[noreturn]] void refuse_lack(std::string_view key) const;
  template <class T>
  T required(std::string_view key, std::optional<T> value) const {
    if (!value) refuse_lack(key);
    return *std::move(value);
  }

  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> places_;  // of tensors, by name
};

}  // namespace accrue::detail
