#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace accrue::test {

// A protobuf message, of whose fields a test names those that it writes.
struct Message {
  std::string bytes{};

  Message& number(uint64_t field, int64_t value) {
    varint(field << 3);
    varint(uint64_t(value));
    return *this;
  }
  Message& text(uint64_t field, const std::string& value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message& part(uint64_t field, const Message& value) { return text(field, value.bytes); }
  Message& real(uint64_t field, float value) {
    varint(field << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes += char(value | 128);
    bytes += char(value);
  }
};

// A small ONNX file in the making.
struct OnnxBytes {
  using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
  using Sizes = std::vector<std::variant<int64_t, std::string>>;
  enum { f32 = 1, i64 = 7, boolean = 9, f16 = 10, f64 = 11 };

  Message graph{};
  int64_t opset = 17;
  std::string producer = "test";

  OnnxBytes& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs,
                  const std::vector<std::pair<std::string, Attribute>>& attributes = {},
                  const std::string& domain = "") {
    Message m;
    for (const auto& input : inputs) m.text(1, input);
    for (const auto& output : outputs) m.text(2, output);
    m.text(3, op + "_" + outputs.front()).text(4, op);
    for (const auto& [name, value] : attributes) m.part(5, attribute_of(name, value));
    if (!domain.empty()) m.text(7, domain);
    graph.part(1, m);
    return *this;
  }
  // Raw elements of any type.
  OnnxBytes& raw(const std::string& name, const std::vector<int64_t>& sizes, int64_t type,
                 const std::string& bytes) {
    Message m;
    for (const int64_t size : sizes) m.number(1, size);
    graph.part(5, m.number(2, type).text(8, name).text(9, bytes));
    return *this;
  }
  template <class T>
  OnnxBytes& tensor(const std::string& name, const std::vector<int64_t>& sizes,
                    const std::vector<T>& values) {
    const std::string bytes(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(T));
    return raw(name, sizes,
               std::is_same_v<T, float>    ? f32
               : std::is_same_v<T, double> ? f64
                                           : i64,
               bytes);
  }
  OnnxBytes& input(const std::string& name, const Sizes& sizes, int64_t type = f32) {
    graph.part(11, info_of(name, sizes, type));
    return *this;
  }
  OnnxBytes& output(const std::string& name, const Sizes& sizes, int64_t type = f32) {
    graph.part(12, info_of(name, sizes, type));
    return *this;
  }
  OnnxBytes& known(const std::string& name, const Sizes& sizes, int64_t type = f32) {
    graph.part(13, info_of(name, sizes, type));
    return *this;
  }
  std::string file() const {
    const Message import = Message().text(1, "").number(2, opset);
    return Message().number(1, 8).text(2, producer).part(7, graph).part(8, import).bytes;
  }

 private:
  static Message attribute_of(const std::string& name, const Attribute& value) {
    Message m;
    m.text(1, name);
    if (const auto* number = std::get_if<int64_t>(&value))
      return m.number(3, *number).number(20, 2);
    if (const auto* number = std::get_if<float>(&value)) return m.real(2, *number).number(20, 1);
    if (const auto* text = std::get_if<std::string>(&value)) return m.text(4, *text).number(20, 3);
    for (const int64_t each : std::get<std::vector<int64_t>>(value)) m.number(8, each);
    return m.number(20, 7);
  }
  static Message info_of(const std::string& name, const Sizes& sizes, int64_t type) {
    Message shape;
    for (const auto& size : sizes) {
      Message dim;
      if (const auto* number = std::get_if<int64_t>(&size)) dim.number(1, *number);
      else dim.text(2, std::get<std::string>(size));
      shape.part(1, dim);
    }
    const Message tensor = Message().number(1, type).part(2, shape);
    return Message().text(1, name).part(2, Message().part(1, tensor));
  }
};

}  // namespace accrue::test
