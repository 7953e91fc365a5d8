#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"
#include "data/gguf.h"

namespace accrue {

// Writes GGUF files of version 3, which GgufFile reads.
class GgufWriter {
 public:
  // Add a key. Integers take 32 bits, other numbers are float32. They throw Error if the key exists
  // already, and for a number that does not fit.
  void count(const std::string& key, int64_t value);
  void number(const std::string& key, double value);
  void flag(const std::string& key, bool value);
  void text(const std::string& key, std::string_view value);
  void integers(const std::string& key, const std::vector<int32_t>& values);
  void numbers(const std::string& key, const std::vector<float>& values);
  void texts(const std::string& key, const std::vector<std::string>& values);
  // Copies the keys of another file that begin with `prefix`.
  void copy_keys(const GgufFile& file, std::string_view prefix);

  // Adds a tensor. `fill` sets its elements when the file is written. Each row must consist of
  // whole blocks.
  using Fill = std::function<void(std::span<std::byte>)>;
  void tensor(const std::string& name, const Shape& shape, DType type, Fill fill);

  // Writes the file atomically (data/atomic_file.h), one tensor after another.
  void write(const std::filesystem::path& path) const;

 private:
  struct Described {
    std::string name;
    Shape shape;
    DType type;
    Fill fill;
    uint64_t bytes;
  };

  std::string& key(const std::string& name, uint32_t type);

  std::set<std::string> taken_;  // names of keys
  std::string keys_;
  std::vector<Described> tensors_;
};

}  // namespace accrue
