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

// Makes a file as GgufFile reads them, of version 3.
class GgufWriter {
 public:
  // Adds a key, whole numbers in 32 bits, others as float32. Throws Error if the key is there, and
  // for a number that does not fit.
  void count(const std::string& key, int64_t value);
  void number(const std::string& key, double value);
  void flag(const std::string& key, bool value);
  void text(const std::string& key, std::string_view value);
  void integers(const std::string& key, const std::vector<int32_t>& values);
  void numbers(const std::string& key, const std::vector<float>& values);
  void texts(const std::string& key, const std::vector<std::string>& values);
  // The keys of another file that begin so, as they are.
  void copy_keys(const GgufFile& file, std::string_view prefix);

  // Adds a tensor, whose elements `fill` sets when the file is written. Its rows are whole blocks.
  using Fill = std::function<void(std::span<std::byte>)>;
  void tensor(const std::string& name, const Shape& shape, DType type, Fill fill);

  // Atomically (data/atomic_file.h), a tensor after the other.
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
