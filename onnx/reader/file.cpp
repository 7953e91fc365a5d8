#include "onnx/reader/file.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "core/inside.h"

namespace accrue {
namespace {

// Elements of stored type T as numbers.
template <class T, class Number>
std::vector<Number> elements_as(std::span<const std::byte> bytes) {
  std::vector<Number> numbers;
  numbers.reserve(bytes.size() / sizeof(T));
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    numbers.push_back(static_cast<Number>(element));
  }
  return numbers;
}

// Calls body.operator()<T>() with the type in which elements are stored.
template <class Body>
auto with_stored(const OnnxTensor& tensor, const Body& body) {
  switch (tensor.type) {
    case OnnxType::f32: return body.template operator()<float>();
    case OnnxType::f64: return body.template operator()<double>();
    case OnnxType::f16: return body.template operator()<Half>();
    case OnnxType::bf16: return body.template operator()<BFloat16>();
    case OnnxType::u8:
    case OnnxType::boolean: return body.template operator()<uint8_t>();
    case OnnxType::i8: return body.template operator()<int8_t>();
    case OnnxType::u16: return body.template operator()<uint16_t>();
    case OnnxType::i16: return body.template operator()<int16_t>();
    case OnnxType::i32: return body.template operator()<int32_t>();
    case OnnxType::i64: return body.template operator()<int64_t>();
    case OnnxType::u32: return body.template operator()<uint32_t>();
    case OnnxType::u64: return body.template operator()<uint64_t>();
    default:
      fail("[onnx] the tensor '{}' has elements of {}: expected numbers", tensor.name,
           to_string(tensor.type));
  }
}

// The attribute as a T, or the default if there is none.
template <class T>
T attribute_of(const OnnxNode& node, const std::string& attribute, T by_default,
               std::string_view expected) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return by_default;
  const T* const value = std::get_if<T>(&found->second);
  check(value != nullptr, "[onnx] {}: its attribute '{}' is of another kind: expected {}",
        node.words(), attribute, expected);
  return *value;
}

}  // namespace

std::string detail::to_string(OnnxType type) {
  constexpr std::string_view names[]{
      "no type", "float32", "uint8",   "int8",   "uint16", "int16",   "int32",   "int64",   "text",
      "bool",    "float16", "float64", "uint32", "uint64", "complex", "complex", "bfloat16"};
  const auto number = static_cast<size_t>(type);
  if (number < std::size(names)) return std::string(names[number]);
  return fmt::format("type {}", number);
}

bool detail::is_floating(OnnxType type) {
  return type == OnnxType::f32 || type == OnnxType::f64 || type == OnnxType::f16 ||
         type == OnnxType::bf16;
}

std::string detail::sizes_text(const OnnxValueInfo& value) {
  std::vector<std::string> sizes;
  for (const auto& size : value.sizes) {
    const auto* const number = std::get_if<int64_t>(&size);
    const std::string name = number ? std::to_string(*number) : std::get<std::string>(size);
    sizes.push_back(name.empty() ? "?" : name);
  }
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// OnnxTensor

std::vector<double> OnnxTensor::numbers() const {
  return with_stored(*this, [&]<class T>() { return elements_as<T, double>(bytes); });
}

std::vector<int64_t> OnnxTensor::integers() const {
  check(!detail::is_floating(type), "[onnx] the tensor '{}' is {}: expected integers", name,
        to_string(type));
  return with_stored(*this, [&]<class T>() { return elements_as<T, int64_t>(bytes); });
}

// OnnxNode

std::string OnnxNode::full_op() const {
  return domain.empty() ? op : fmt::format("{}.{}", domain, op);
}

std::string OnnxNode::words() const {
  const std::string full = op_in_file.empty() ? full_op() : op_in_file;
  if (!name.empty()) return fmt::format("{} '{}'", full, name);
  for (const std::string& output : outputs)
    if (!output.empty()) return fmt::format("{} that gives '{}'", full, output);
  return full;
}

int64_t OnnxNode::integer(const std::string& attribute, int64_t by_default) const {
  return attribute_of(*this, attribute, by_default, "an integer");
}

double OnnxNode::number(const std::string& attribute, double by_default) const {
  return attribute_of(*this, attribute, by_default, "a number");
}

std::string OnnxNode::text(const std::string& attribute, const std::string& by_default) const {
  return attribute_of(*this, attribute, by_default, "a text");
}

std::vector<int64_t> OnnxNode::integers(const std::string& attribute,
                                        std::vector<int64_t> by_default) const {
  return attribute_of(*this, attribute, std::move(by_default), "integers");
}

}  // namespace accrue
