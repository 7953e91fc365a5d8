#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue::test {

// A GGUF file, written byte by byte from the format's description alone.
class GgufBytes {
 public:
  // The format's numbers for the types of values.
  enum Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

  // A number as it lies in the file.
  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string raw(const std::string& value) { return raw(uint64_t{value.size()}) + value; }
  static std::string raw(const char* value) { return raw(std::string(value)); }

  // Adds a key with the bytes of its value.
  GgufBytes& add(const std::string& key, uint32_t type, const std::string& value) {
    keys_ += raw(key) + raw(type) + value;
    ++key_count_;
    return *this;
  }
  template <class T>
  GgufBytes& number(const std::string& key, uint32_t type, T value) {
    return add(key, type, raw(value));
  }
  GgufBytes& count(const std::string& key, uint32_t value) { return number(key, u32, value); }
  GgufBytes& string(const std::string& key, const std::string& value) {
    return add(key, text, raw(value));
  }
  template <class T>
  GgufBytes& list(const std::string& key, uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw(type) + raw(uint64_t{values.size()});
    for (const T& value : values) bytes += raw(value);
    return add(key, array, bytes);
  }

  // Adds a tensor at the next multiple of 32 of the data. Its sizes come innermost first.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& sizes, uint32_t type,
                    const std::string& elements) {
    data_.resize((data_.size() + 31) / 32 * 32);
    const uint64_t offset = data_.size();
    data_ += elements;
    return describe(name, sizes, type, offset);
  }
  // Adds the description of a tensor without its elements.
  GgufBytes& describe(const std::string& name, const std::vector<uint64_t>& sizes, uint32_t type,
                      uint64_t offset) {
    tensors_ += raw(name) + raw(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) tensors_ += raw(size);
    tensors_ += raw(type) + raw(offset);
    ++tensor_count_;
    return *this;
  }

  std::string file(uint32_t version = 3) const {
    std::string bytes =
        "GGUF" + raw(version) + raw(tensor_count_) + raw(key_count_) + keys_ + tensors_;
    bytes.resize((bytes.size() + 31) / 32 * 32);
    return bytes + data_;
  }

 private:
  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
};

}  // namespace accrue::test
