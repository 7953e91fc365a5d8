#pragma once

#include <onnx.pb.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/inside.h"
#include "core/view.h"
#include "data/safetensors.h"

namespace accrue {

// A graph of ONNX operators under construction. Values are identified by name.
class OnnxGraph {
 public:
  using Name = std::string;
  using Integers = std::vector<int64_t>;
  using Attribute = std::variant<int64_t, double, std::string, Integers>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  // Adds a node with one output (or several) and returns its name (or their names). The node is
  // named after the current layer (MemoryScope).
  Name add(std::string_view op, const std::vector<Name>& inputs, const Attributes& attributes = {});
  std::vector<Name> add(std::string_view op, const std::vector<Name>& inputs, size_t outputs,
                        const Attributes& attributes);

  // A constant with these elements and a name that begins with `name`. Throws Error unless they are
  // f32 or i32.
  Name constant(const std::string& name, const View& elements);
  // Constants with these values, f32 or int64. Equal constants are stored once.
  Name numbers(const std::vector<float>& values, const Shape& shape);
  Name number(double value) { return numbers({static_cast<float>(value)}, Shape()); }
  Name integers(const Integers& values);
  Name integer(int64_t value);

  // x with another shape: 0 keeps the size of x there, -1 takes the remaining size.
  Name reshape(const Name& x, const Integers& shape) {
    return add("Reshape", {x, integers(shape)});
  }

  // Sizes for which `free_sizes` has a name have that instead of a number.
  void add_input(const Name& name, DType dtype, const Shape& shape,
                 const std::vector<std::string>& free_sizes);
  void add_answer(const Name& name, const Name& value, DType dtype, const Shape& shape,
                  const std::vector<std::string>& free_sizes);

  // The contents of the file. Throws Error from 2 GiB on.
  std::string finish(const Metadata& metadata);

 private:
  Name unique(const std::string& name);
  Name constant_of(const std::string& name, int type, std::span<const int64_t> sizes,
                   std::string bytes);

  onnx::ModelProto model_;
  onnx::GraphProto& graph_ = *model_.mutable_graph();
  std::set<Name> taken_;
  std::map<std::pair<std::string, Integers>, Name> known_;  // the bytes and shape of constants
};

}  // namespace accrue
