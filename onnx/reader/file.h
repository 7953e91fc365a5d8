#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/shape.h"

namespace accrue::detail {

// An ONNX file as it stands, without meaning: nodes, tensors and names. onnx/reader/network.h makes
// a network of it.

// The types of elements, numbered as in TensorProto.DataType.
enum class OnnxType {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16
};
std::string to_string(OnnxType type);
bool is_floating(OnnxType type);

// A tensor of constants: an initializer, or an attribute of a node. Its elements stay where they
// are in the file, or in the file beside it that holds them, until they are asked for.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::undefined;
  Shape shape;
  // Owns what `bytes` refers to.
  std::shared_ptr<const void> owner{};
  // Little-endian and row-major, as in raw_data. Typed data (float_data and its like) are brought
  // into this form when the file is read.
  std::span<const std::byte> bytes{};

  int64_t numel() const { return shape.numel(); }
  // The elements. Numbers of 64 bits beyond 2^53 lose digits. Throws Error for strings.
  std::vector<double> numbers() const;
  // Throws Error unless the elements are integers or truth values.
  std::vector<int64_t> integers() const;
};

// The value of an attribute. monostate is a graph, or another kind that is not read.
using OnnxAttribute =
    std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, OnnxTensor>;

struct OnnxNode {
  std::string op;                            // "Conv"
  std::string domain;                        // empty: ONNX's own
  std::string name;                          // may be empty
  std::vector<std::string> inputs, outputs;  // empty: left out
  std::map<std::string, OnnxAttribute> attributes;
  // Where a pass put nodes together: the op of the file's node that gives the result.
  std::string op_in_file{};

  // "Conv", or behind the domain: "com.microsoft.Gelu".
  std::string full_op() const;
  // "Conv 'features.0'", or without a name "Conv that gives 'output'".
  std::string words() const;
  bool has(const std::string& attribute) const { return attributes.contains(attribute); }
  // Attributes with defaults. Throw Error that names the node if the kind is another.
  int64_t integer(const std::string& attribute, int64_t by_default) const;
  double number(const std::string& attribute, double by_default) const;
  std::string text(const std::string& attribute, const std::string& by_default) const;
  std::vector<int64_t> integers(const std::string& attribute,
                                std::vector<int64_t> by_default) const;
};

// An input or an output of the file's graph. A size is a number, or a name for one that is free.
struct OnnxValueInfo {
  std::string name;
  OnnxType type = OnnxType::undefined;
  bool has_shape = false;
  std::vector<std::variant<int64_t, std::string>> sizes;
};

// "[N, 3, 224, 224]", with a "?" for a free size without a name.
std::string sizes_text(const OnnxValueInfo& value);

struct OnnxFile {
  std::filesystem::path path;
  std::string producer;         // "pytorch 2.15.0"
  int64_t opset = 0;            // of ONNX's own domain
  std::vector<OnnxNode> nodes;  // each after the nodes whose results it takes
  // With the floating tensors that Constant nodes hold, if they have dimensions, by the names of
  // their results.
  std::map<std::string, OnnxTensor> initializers;
  std::vector<std::string> initializer_order;  // as in the file
  std::vector<OnnxValueInfo> inputs;           // without those that are initializers
  std::vector<OnnxValueInfo> outputs;
  // Shapes of other values, where the file says them.
  std::map<std::string, OnnxValueInfo> known;
  // The initializers that Constant nodes hold.
  std::set<std::string> in_nodes;

  // Reads a file. External data are looked for beside the file only. Throws Error that says what
  // was expected for files that are no ONNX or cut off, and for opsets outside 6 to 23. The same
  // holds for functions, sparse tensors, names that nothing gives or that are given twice, and if
  // the program was built without protobuf. Ops and domains are not looked at.
  static std::shared_ptr<const OnnxFile> read(const std::filesystem::path& path);
};

// The file at `path` with the elements of these initializers replaced, in the initializers' types,
// and all else as it is, but for external data, which come inside. Elements are given as float64,
// by names. Throws Error for names that are no floating initializer's, and for 2 GiB or more.
std::string with_initializers(const std::filesystem::path& path,
                              const std::map<std::string, std::vector<double>>& values);

}  // namespace accrue::detail
