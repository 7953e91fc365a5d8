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
  // In the mapped file, and aligned for the structure of the type.
  std::span<const std::byte> elements;
};

// A file of llama.cpp's format GGUF, versions 2 and 3, little-endian:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The file is mapped into memory; the
// tensors and texts that it gives lie in it and live as long as this.
// Throws Error, naming the file, the key or tensor, what was expected and what came, for what the
// format does not allow and for tensors of other types than those of kernels/quantized_blocks.h.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  // The value of a key, or nothing if the file does not have it. Each throws Error if the value is
  // of another kind: integer() takes integers of any width, number() also those of floating point.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // The value of a key, of any of these kinds; nothing for an array.
  using Single = std::variant<int64_t, double, bool, std::string_view>;
  std::optional<Single> any(std::string_view key) const;
  // Arrays of them.
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  // The same of a key that the file must have; throws Error if it does not.
  int64_t required_integer(std::string_view key) const { return required(key, integer(key)); }
  double required_number(std::string_view key) const { return required(key, number(key)); }
  std::string_view required_text(std::string_view key) const { return required(key, text(key)); }
  std::vector<std::string_view> required_texts(std::string_view key) const {
    return required(key, texts(key));
  }
  // The bytes of a GGUF file without tensors that has the keys that begin so.
  std::string only_keys(std::string_view prefix) const;
  // The same keys with their values alone, as they lie in a file, one after the other.
  std::string bytes_of_keys(std::string_view prefix) const;
  // All keys, sorted.
  std::vector<std::string_view> keys() const;

  // All tensors, in the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // The tensor of this name; null if there is none.
  const GgufTensor* find_tensor(std::string_view name) const;
  // Throws Error if there is none.
  const GgufTensor& tensor(std::string_view name) const;

 private:
  class Reader;
  // A single value, or an array of them, as it lies in the file.
  struct Value {
    uint32_t type;  // of each
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
