#include "onnx/writer/onnx_graph.h"

#include <limits>

#include "core/build.h"
#include "core/memory_scope.h"

namespace accrue {
namespace {

// The version of the operators' definitions, and of the file format that came with it.
constexpr int64_t opset = 17, ir_version = 8;

int type_of(DType dtype, std::string_view what) {
  switch (dtype) {
    case DType::f32: return onnx::TensorProto::FLOAT;
    case DType::i32: return onnx::TensorProto::INT32;
    case DType::u8: return onnx::TensorProto::UINT8;
    default: break;
  }
  fail("{} is {}: expected f32 or i32, for only these are written to an ONNX file", what,
       name(dtype));
}

void fill(onnx::AttributeProto& out, const OnnxGraph::Attribute& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) {
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    out.set_type(onnx::AttributeProto::FLOAT);
    out.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    out.set_type(onnx::AttributeProto::STRING);
    out.set_s(*s);
  } else {
    out.set_type(onnx::AttributeProto::INTS);
    for (const int64_t each : std::get<OnnxGraph::Integers>(value)) out.add_ints(each);
  }
}

void fill(onnx::ValueInfoProto& out, const std::string& name, DType dtype, const Shape& shape,
          const std::vector<std::string>& free_sizes) {
  out.set_name(name);
  auto& type = *out.mutable_type()->mutable_tensor_type();
  type.set_elem_type(type_of(dtype, name));
  for (size_t i = 0; i < shape.sizes().size(); ++i) {
    auto& size = *type.mutable_shape()->add_dim();
    if (i < free_sizes.size() && !free_sizes[i].empty()) size.set_dim_param(free_sizes[i]);
    else size.set_dim_value(shape.sizes()[i]);
  }
}

template <class T>
std::string bytes_of_all(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

OnnxGraph::Name OnnxGraph::unique(const std::string& name) {
  Name result = name;
  for (int64_t i = 2; !taken_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
  return result;
}

OnnxGraph::Name OnnxGraph::add(std::string_view op, const std::vector<Name>& inputs,
                               const Attributes& attributes) {
  return add(op, inputs, 1, attributes).front();
}

std::vector<OnnxGraph::Name> OnnxGraph::add(std::string_view op, const std::vector<Name>& inputs,
                                            size_t outputs, const Attributes& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  const std::string_view layer = MemoryScope::label().text();
  const Name name = unique(layer.empty() ? std::string(op) : fmt::format("{}: {}", layer, op));
  node.set_name(name);
  node.set_op_type(std::string(op));
  for (const Name& input : inputs) node.add_input(input);
  for (const auto& [key, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    fill(attribute, value);
  }
  std::vector<Name> names{name};
  while (names.size() < outputs) names.push_back(unique(name));
  for (const Name& output : names) node.add_output(output);
  return names;
}

OnnxGraph::Name OnnxGraph::constant_of(const std::string& name, int type,
                                       std::span<const int64_t> sizes, std::string bytes) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(name));
  tensor.set_data_type(type);
  for (const int64_t size : sizes) tensor.add_dims(size);
  tensor.set_raw_data(std::move(bytes));
  return tensor.name();
}

OnnxGraph::Name OnnxGraph::constant(const std::string& name, const View& elements) {
  const std::span all(static_cast<const char*>(elements.data),
                      bytes_of(elements.dtype, elements.numel()));
  return constant_of(name, type_of(elements.dtype, name), elements.shape.sizes(),
                     bytes_of_all(all));
}

OnnxGraph::Name OnnxGraph::numbers(const std::vector<float>& values, const Shape& shape) {
  const std::string bytes = bytes_of_all(std::span<const float>(values));
  Name& name = known_[{"f" + bytes, Integers(shape.sizes().begin(), shape.sizes().end())}];
  if (name.empty()) name = constant_of("constant", onnx::TensorProto::FLOAT, shape.sizes(), bytes);
  return name;
}

OnnxGraph::Name OnnxGraph::integers(const Integers& values) {
  const std::string bytes = bytes_of_all(std::span<const int64_t>(values));
  const Integers sizes{static_cast<int64_t>(values.size())};
  Name& name = known_[{"i" + bytes, sizes}];
  if (name.empty()) name = constant_of("constant", onnx::TensorProto::INT64, sizes, bytes);
  return name;
}

OnnxGraph::Name OnnxGraph::integer(int64_t value) {
  const std::string bytes = bytes_of_all(std::span<const int64_t>(&value, 1));
  Name& name = known_[{"i" + bytes, {}}];
  if (name.empty()) name = constant_of("constant", onnx::TensorProto::INT64, {}, bytes);
  return name;
}

void OnnxGraph::add_input(const Name& name, DType dtype, const Shape& shape,
                          const std::vector<std::string>& free_sizes) {
  taken_.insert(name);
  fill(*graph_.add_input(), name, dtype, shape, free_sizes);
}

void OnnxGraph::add_answer(const Name& name, const Name& value, DType dtype, const Shape& shape,
                           const std::vector<std::string>& free_sizes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(unique(name));
  node.set_op_type("Identity");
  node.add_input(value);
  node.add_output(node.name());
  fill(*graph_.add_output(), node.name(), dtype, shape, free_sizes);
}

std::string OnnxGraph::finish(const Metadata& metadata) {
  graph_.set_name("accrue");
  model_.set_ir_version(ir_version);
  model_.add_opset_import()->set_version(opset);
  model_.set_producer_name("accrue");
  model_.set_producer_version(version());
  for (const auto& [key, value] : metadata) {
    auto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  const size_t bytes = model_.ByteSizeLong();
  check(bytes <= size_t(std::numeric_limits<int32_t>::max()),
        "an ONNX file of {} bytes: expected less than 2 GiB, which is the most that protobuf holds",
        bytes);
  return model_.SerializeAsString();
}

}  // namespace accrue
