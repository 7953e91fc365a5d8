#include "data/gguf_writer.h"

#include <algorithm>
#include <cmath>

#include "data/atomic_file.h"
#include "data/gguf_types.h"

namespace accrue {
namespace {

void append_text(std::string& to, std::string_view text) {
  append_gguf_number(to, uint64_t{text.size()});
  to += text;
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + gguf_alignment - 1) / gguf_alignment * gguf_alignment;
}

uint32_t number_of_type(DType type) {
  const auto found = std::ranges::find(gguf_block_types, type, &std::pair<uint32_t, DType>::second);
  check(found != gguf_block_types.end(), "cannot write tensors of {} to a GGUF file", name(type));
  return found->first;
}

}  // namespace

std::string& GgufWriter::key(const std::string& name, uint32_t type) {
  check(taken_.insert(name).second, "the key '{}' of a GGUF file is given twice", name);
  append_text(keys_, name);
  append_gguf_number(keys_, type);
  return keys_;
}

void GgufWriter::count(const std::string& name, int64_t value) {
  check(0 <= value && value <= int64_t{UINT32_MAX},
        "the key '{}' of a GGUF file is {}: expected 0 to {}", name, value, UINT32_MAX);
  append_gguf_number(key(name, type_u32), static_cast<uint32_t>(value));
}

void GgufWriter::number(const std::string& name, double value) {
  const auto narrow = static_cast<float>(value);
  check(std::isfinite(narrow), "the key '{}' of a GGUF file is {}: expected a float32", name,
        value);
  append_gguf_number(key(name, type_f32), narrow);
}

void GgufWriter::flag(const std::string& name, bool value) {
  append_gguf_number(key(name, type_bool), uint8_t{value});
}

void GgufWriter::text(const std::string& name, std::string_view value) {
  append_text(key(name, type_text), value);
}

void GgufWriter::integers(const std::string& name, const std::vector<int32_t>& values) {
  std::string& to = key(name, type_array);
  append_gguf_number(to, uint32_t{type_i32});
  append_gguf_number(to, uint64_t{values.size()});
  for (const int32_t value : values) append_gguf_number(to, value);
}

void GgufWriter::numbers(const std::string& name, const std::vector<float>& values) {
  std::string& to = key(name, type_array);
  append_gguf_number(to, uint32_t{type_f32});
  append_gguf_number(to, uint64_t{values.size()});
  for (const float value : values) append_gguf_number(to, value);
}

void GgufWriter::texts(const std::string& name, const std::vector<std::string>& values) {
  std::string& to = key(name, type_array);
  append_gguf_number(to, uint32_t{type_text});
  append_gguf_number(to, uint64_t{values.size()});
  for (const std::string& value : values) append_text(to, value);
}

void GgufWriter::copy_keys(const GgufFile& file, std::string_view prefix) {
  for (const std::string_view name : file.keys())
    if (name.starts_with(prefix))
      check(taken_.insert(std::string(name)).second, "the key '{}' of a GGUF file is given twice",
            name);
  keys_ += file.bytes_of_keys(prefix);
}

void GgufWriter::tensor(const std::string& name, const Shape& shape, DType type, Fill fill) {
  number_of_type(type);
  check(shape.rank() > 0 && shape[-1] % block_elements(type) == 0,
        "the tensor '{}' {} of a GGUF file does not have whole blocks of {}", name, shape,
        accrue::name(type));
  const auto blocks = static_cast<uint64_t>(shape.numel() / block_elements(type));
  tensors_.push_back({name, shape, type, std::move(fill), blocks * block_bytes(type)});
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::string head = "GGUF";
  append_gguf_number(head, uint32_t{3});
  append_gguf_number(head, uint64_t{tensors_.size()});
  append_gguf_number(head, uint64_t{taken_.size()});
  head += keys_;
  uint64_t offset = 0;
  for (const Described& each : tensors_) {
    append_text(head, each.name);
    append_gguf_number(head, static_cast<uint32_t>(each.shape.rank()));
    for (int i = each.shape.rank(); i-- > 0;)
      append_gguf_number(head, static_cast<uint64_t>(each.shape[i]));
    append_gguf_number(head, number_of_type(each.type));
    append_gguf_number(head, offset);
    offset += aligned(each.bytes);
  }
  head.resize(aligned(head.size()));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(head)));
  for (const Described& each : tensors_) {
    std::vector<std::byte> elements(aligned(each.bytes));
    each.fill(std::span(elements).first(each.bytes));
    file.write(elements);
  }
  file.commit();
}

}  // namespace accrue
