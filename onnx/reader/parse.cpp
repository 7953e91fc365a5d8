// Files of ONNX, parsed by protobuf.

#include <onnx.pb.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/dtype.h"
#include "core/inside.h"
#include "data/mapped_file.h"
#include "onnx/reader/file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using onnx::AttributeProto;
using onnx::ModelProto;
using onnx::TensorProto;

constexpr int64_t least_opset = 6, most_opset = 23;

// The bytes of an element; 0 of a type that is not read.
int64_t bytes_of_element(OnnxType type) {
  using enum OnnxType;
  switch (type) {
    case u8:
    case i8:
    case boolean: return 1;
    case f16:
    case bf16:
    case u16:
    case i16: return 2;
    case f32:
    case i32:
    case u32: return 4;
    case f64:
    case i64:
    case u64: return 8;
    default: return 0;
  }
}

// Parses a file, whose errors begin with its name.
class Parser {
 public:
  explicit Parser(const fs::path& path) : path_(path), model_(std::make_shared<ModelProto>()) {
    const MappedFile file(path);
    check(file.bytes().size() < size_t{1} << 31,
          "{} has 2 GiB or more: expected less, with large tensors in a file beside it",
          path.string());
    // Sizes of texts are below that of the file, so that no broken length allocates more.
    check(model_->ParsePartialFromArray(file.bytes().data(), int(file.bytes().size())) &&
              model_->has_graph() && model_->opset_import_size() > 0,
          "{} is no ONNX file, or is cut off: expected a model with a graph and its opset",
          path.string());
  }

  std::shared_ptr<ModelProto> model() const { return model_; }

  OnnxTensor tensor_of(const TensorProto& proto) const;
  OnnxNode node_of(const onnx::NodeProto& proto) const;
  OnnxValueInfo info_of(const onnx::ValueInfoProto& proto) const;
  int64_t opset() const;

  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> why, Args&&... args) const {
    if (!ok) [[unlikely]]
      fail("{}: {}", path_.string(), fmt::format(why, std::forward<Args>(args)...));
  }

 private:
  int64_t elements_of(const TensorProto& proto) const;
  std::span<const std::byte> external(const TensorProto& proto, int64_t bytes,
                                      std::shared_ptr<const void>& owner) const;
  std::vector<std::byte> typed(const TensorProto& proto, OnnxType type, int64_t elements) const;
  OnnxAttribute attribute_of(const AttributeProto& proto) const;

  fs::path path_;
  std::shared_ptr<ModelProto> model_;
  // Files beside it that are mapped.
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> mapped_;
};

int64_t Parser::opset() const {
  int64_t version = 0;
  for (const auto& import : model_->opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") version = import.version();
  require(version >= least_opset && version <= most_opset,
          "its opset is {}: expected {} to {}; export it again, or convert it with onnx's "
          "version_converter",
          version, least_opset, most_opset);
  return version;
}

int64_t Parser::elements_of(const TensorProto& proto) const {
  require(proto.dims_size() <= Shape::max_rank,
          "the tensor '{}' has {} dimensions: expected at most {}", proto.name(), proto.dims_size(),
          Shape::max_rank);
  int64_t elements = 1;
  for (const int64_t size : proto.dims())
    require(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                elements < int64_t{1} << 56,
            "the tensor '{}' has the size {}: expected sizes of a tensor that fits into memory",
            proto.name(), size);
  return elements;
}

// The elements in a file beside this one.
std::span<const std::byte> Parser::external(const TensorProto& proto, int64_t bytes,
                                            std::shared_ptr<const void>& owner) const {
  std::map<std::string, std::string> entries;
  for (const auto& entry : proto.external_data()) entries[entry.key()] = entry.value();
  const auto number = [&](const char* key, int64_t by_default) {
    if (!entries.contains(key)) return by_default;
    const std::string& text = entries.at(key);
    const bool is_number = !text.empty() && text.size() <= 18 &&
                           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    require(is_number, "the tensor '{}' has the external {} '{}': expected a number", proto.name(),
            key, text);
    return int64_t(std::stoll(text));
  };
  const std::string location = entries["location"];
  const fs::path relative = location;
  const fs::path folder = fs::absolute(path_).parent_path();
  const bool is_plain = !location.empty() && relative.is_relative() &&
                        std::ranges::find(relative, fs::path("..")) == relative.end();
  require(is_plain, "the tensor '{}' is in the file '{}': expected a file beside this one",
          proto.name(), location);
  auto& file = mapped_[location];
  if (!file) {
    std::error_code error;
    const fs::path real = fs::canonical(folder / relative, error);
    require(!error,
            "the tensor '{}' is in the file '{}', which is not there: expected it beside "
            "this one",
            proto.name(), location);
    const fs::path home = fs::canonical(folder);
    const auto [at, _] = std::ranges::mismatch(home, real);
    require(at == home.end(),
            "the tensor '{}' is in '{}', a link to {}: expected a file beside this one",
            proto.name(), location, real.string());
    file = std::make_shared<const MappedFile>(real);
  }
  const int64_t offset = number("offset", 0), length = number("length", bytes);
  const auto size = int64_t(file->bytes().size());
  require(
      length == bytes && offset <= size && bytes <= size - offset,
      "the tensor '{}' has {} bytes from {} on in '{}' of {} bytes: expected {} bytes within it",
      proto.name(), length, offset, location, size, bytes);
  owner = file;
  return file->bytes().subspan(size_t(offset), size_t(bytes));
}

template <class T, class Source>
std::vector<std::byte> stored_as(const Source& source) {
  std::vector<std::byte> bytes(size_t(source.size()) * sizeof(T));
  for (int i = 0; i < source.size(); ++i) {
    const T element = static_cast<T>(source[i]);
    std::memcpy(bytes.data() + size_t(i) * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

// Typed data in the form of raw data.
std::vector<std::byte> Parser::typed(const TensorProto& proto, OnnxType type,
                                     int64_t elements) const {
  std::vector<std::byte> bytes;
  switch (type) {
    case OnnxType::f32: bytes = stored_as<float>(proto.float_data()); break;
    case OnnxType::f64: bytes = stored_as<double>(proto.double_data()); break;
    case OnnxType::i64: bytes = stored_as<int64_t>(proto.int64_data()); break;
    case OnnxType::u32: bytes = stored_as<uint32_t>(proto.uint64_data()); break;
    case OnnxType::u64: bytes = stored_as<uint64_t>(proto.uint64_data()); break;
    case OnnxType::i32: bytes = stored_as<int32_t>(proto.int32_data()); break;
    default:
      bytes = bytes_of_element(type) == 2 ? stored_as<uint16_t>(proto.int32_data())
                                          : stored_as<uint8_t>(proto.int32_data());
  }
  const auto given = int64_t(bytes.size()) / bytes_of_element(type);
  require(given == elements, "the tensor '{}' has {} elements: expected {}", proto.name(), given,
          elements);
  return bytes;
}

OnnxTensor Parser::tensor_of(const TensorProto& proto) const {
  OnnxTensor tensor{.name = proto.name(), .type = OnnxType(proto.data_type())};
  const int64_t elements = elements_of(proto);
  tensor.shape = Shape(std::vector<int64_t>(proto.dims().begin(), proto.dims().end()));
  const int64_t each = bytes_of_element(tensor.type);
  if (each == 0) return tensor;  // an error where something asks for its elements
  require(!proto.has_segment(), "the tensor '{}' is a segment: expected it whole", proto.name());
  if (proto.data_location() == TensorProto::EXTERNAL) {
    tensor.bytes = external(proto, elements * each, tensor.owner);
  } else if (proto.has_raw_data()) {
    const std::string& raw = proto.raw_data();
    require(int64_t(raw.size()) == elements * each,
            "the tensor '{}' has {} bytes: expected {} for {} of {}", proto.name(), raw.size(),
            elements * each, to_string(tensor.type), tensor.shape);
    tensor.owner = model_;
    tensor.bytes = std::as_bytes(std::span(raw));
  } else {
    const auto bytes =
        std::make_shared<const std::vector<std::byte>>(typed(proto, tensor.type, elements));
    tensor.bytes = *bytes;
    tensor.owner = bytes;
  }
  return tensor;
}

OnnxAttribute Parser::attribute_of(const AttributeProto& proto) const {
  auto type = proto.type();
  if (type == AttributeProto::UNDEFINED) {  // as the first versions wrote it
    if (proto.has_f()) type = AttributeProto::FLOAT;
    else if (proto.has_i()) type = AttributeProto::INT;
    else if (proto.has_s()) type = AttributeProto::STRING;
    else if (proto.has_t()) type = AttributeProto::TENSOR;
    else if (proto.floats_size() > 0) type = AttributeProto::FLOATS;
    else if (proto.ints_size() > 0) type = AttributeProto::INTS;
    else if (proto.strings_size() > 0) type = AttributeProto::STRINGS;
  }
  switch (type) {
    case AttributeProto::FLOAT: return double(proto.f());
    case AttributeProto::INT: return int64_t(proto.i());
    case AttributeProto::STRING: return proto.s();
    case AttributeProto::TENSOR: return tensor_of(proto.t());
    case AttributeProto::FLOATS:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case AttributeProto::INTS:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case AttributeProto::STRINGS:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    default: return std::monostate();
  }
}

OnnxNode Parser::node_of(const onnx::NodeProto& proto) const {
  OnnxNode node{.op = proto.op_type(),
                .domain = proto.domain() == "ai.onnx" ? "" : proto.domain(),
                .name = proto.name(),
                .inputs = {proto.input().begin(), proto.input().end()},
                .outputs = {proto.output().begin(), proto.output().end()},
                .attributes = {}};
  for (const AttributeProto& attribute : proto.attribute()) {
    require(!attribute.has_ref_attr_name(),
            "{}: its attribute '{}' refers to a function's: expected a value", node.words(),
            attribute.name());
    const bool is_new = node.attributes.emplace(attribute.name(), attribute_of(attribute)).second;
    require(is_new, "{}: it has the attribute '{}' twice", node.words(), attribute.name());
  }
  return node;
}

OnnxValueInfo Parser::info_of(const onnx::ValueInfoProto& proto) const {
  const auto& tensor = proto.type().tensor_type();
  OnnxValueInfo info{.name = proto.name(),
                     .type = OnnxType(tensor.elem_type()),
                     .has_shape = tensor.has_shape(),
                     .sizes = {}};
  for (const auto& size : tensor.shape().dim())
    if (size.has_dim_value() && size.dim_value() >= 0) info.sizes.emplace_back(size.dim_value());
    else info.sizes.emplace_back(size.dim_param());
  return info;
}

// The nodes in an order in which each comes after the nodes whose results it takes.
std::vector<OnnxNode> in_order(const Parser& parser, std::vector<OnnxNode> nodes,
                               const std::set<std::string>& given) {
  std::map<std::string, size_t> makers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty())
        parser.require(!given.contains(output) && makers.emplace(output, i).second,
                       "{}: its output '{}' is given twice: expected a name for each value",
                       nodes[i].words(), output);
  std::vector<size_t> missing(nodes.size());  // makers that have not run
  std::vector<std::vector<size_t>> takers(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& input : nodes[i].inputs) {
      if (input.empty() || given.contains(input)) continue;
      const auto maker = makers.find(input);
      parser.require(maker != makers.end(), "{}: nothing gives its input '{}'", nodes[i].words(),
                     input);
      takers[maker->second].push_back(i);
      ++missing[i];
    }
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0) ready.insert(i);
  std::vector<OnnxNode> ordered;
  while (!ready.empty()) {
    const size_t first = *ready.begin();
    ready.erase(ready.begin());
    for (const size_t taker : takers[first])
      if (--missing[taker] == 0) ready.insert(taker);
    ordered.push_back(std::move(nodes[first]));
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    parser.require(missing[i] == 0, "{}: it needs a result of its own", nodes[i].words());
  return ordered;
}

// Whether the node is a Constant of a floating tensor: exporters hold weights there, too. A number
// without dimensions is no weight.
bool holds_weight(const onnx::NodeProto& node) {
  const bool is_constant = node.op_type() == "Constant" && node.output_size() == 1 &&
                           node.attribute_size() == 1 && node.attribute(0).name() == "value" &&
                           (node.domain().empty() || node.domain() == "ai.onnx");
  if (!is_constant) return false;
  const TensorProto& tensor = node.attribute(0).t();
  return is_floating(OnnxType(tensor.data_type())) && tensor.dims_size() > 0 &&
         std::ranges::all_of(tensor.dims(), [](int64_t size) { return size > 0; });
}

void read_initializers(const Parser& parser, const onnx::GraphProto& graph, OnnxFile& file) {
  parser.require(graph.sparse_initializer_size() == 0,
                 "it has sparse initializers: expected dense ones");
  for (const TensorProto& proto : graph.initializer()) {
    parser.require(!proto.name().empty(), "an initializer has no name");
    const bool is_new = file.initializers.emplace(proto.name(), parser.tensor_of(proto)).second;
    parser.require(is_new, "two initializers are called '{}'", proto.name());
    file.initializer_order.push_back(proto.name());
  }
}

}  // namespace

std::shared_ptr<const OnnxFile> OnnxFile::read(const fs::path& path) {
  const Parser parser(path);
  const ModelProto& model = *parser.model();
  const onnx::GraphProto& graph = model.graph();
  auto file = std::make_shared<OnnxFile>();
  file->path = path;
  file->producer = model.producer_name();
  if (!model.producer_version().empty()) file->producer += " " + model.producer_version();
  file->opset = parser.opset();
  if (model.functions_size() > 0)
    parser.require(false,
                   "it has functions of its own, such as '{}': expected nodes alone; export it "
                   "again, or inline them with onnx.inliner.inline_local_functions",
                   model.functions(0).name());
  read_initializers(parser, graph, *file);
  std::set<std::string> given(file->initializer_order.begin(), file->initializer_order.end());
  for (const auto& proto : graph.input()) {
    if (file->initializers.contains(proto.name())) continue;
    parser.require(!proto.name().empty() && given.insert(proto.name()).second,
                   "two inputs are called '{}'", proto.name());
    file->inputs.push_back(parser.info_of(proto));
  }
  std::vector<OnnxNode> nodes;
  for (const auto& proto : graph.node()) {
    if (!holds_weight(proto) || proto.output(0).empty() || !given.insert(proto.output(0)).second) {
      nodes.push_back(parser.node_of(proto));
      continue;
    }
    OnnxTensor tensor = parser.tensor_of(proto.attribute(0).t());
    tensor.name = proto.output(0);
    file->in_nodes.insert(tensor.name);
    file->initializer_order.push_back(tensor.name);
    file->initializers.emplace(tensor.name, std::move(tensor));
  }
  file->nodes = in_order(parser, std::move(nodes), given);
  for (const OnnxNode& node : file->nodes) given.insert(node.outputs.begin(), node.outputs.end());
  std::set<std::string> names;
  for (const auto& proto : graph.output()) {
    parser.require(given.contains(proto.name()) && !proto.name().empty(),
                   "nothing gives its output '{}'", proto.name());
    parser.require(names.insert(proto.name()).second, "two outputs are called '{}'", proto.name());
    file->outputs.push_back(parser.info_of(proto));
  }
  parser.require(!file->outputs.empty(), "it has no outputs");
  for (const auto& proto : graph.value_info()) file->known[proto.name()] = parser.info_of(proto);
  return file;
}

// Files with other values

namespace {

std::string raw_of(const Parser& parser, const OnnxTensor& tensor,
                   const std::vector<double>& values) {
  parser.require(std::ssize(values) == tensor.numel(),
                 "the initializer '{}' gets {} numbers: expected {}", tensor.name, values.size(),
                 tensor.shape);
  std::string raw(size_t(tensor.numel() * bytes_of_element(tensor.type)), '\0');
  const auto write = [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = T(static_cast<Wide<T>>(values[i]));
      std::memcpy(raw.data() + i * sizeof(T), &element, sizeof(T));
    }
  };
  switch (tensor.type) {
    case OnnxType::f32: write.template operator()<float>(); break;
    case OnnxType::f64: write.template operator()<double>(); break;
    case OnnxType::f16: write.template operator()<Half>(); break;
    case OnnxType::bf16: write.template operator()<BFloat16>(); break;
    default:
      fail("the initializer '{}' is {}: expected a floating type", tensor.name,
           to_string(tensor.type));
  }
  return raw;
}

void clear_elements(TensorProto& proto) {
  proto.clear_float_data();
  proto.clear_double_data();
  proto.clear_int32_data();
  proto.clear_int64_data();
  proto.clear_uint64_data();
  proto.clear_raw_data();
  proto.clear_external_data();
  proto.clear_data_location();
}

}  // namespace

std::string detail::with_initializers(const fs::path& path,
                                      const std::map<std::string, std::vector<double>>& values) {
  const Parser parser(path);
  ModelProto& model = *parser.model();
  size_t replaced = 0;
  const auto replace = [&](const std::string& name, TensorProto& proto) {
    const auto found = values.find(name);
    const bool is_external = proto.data_location() == TensorProto::EXTERNAL;
    if (found == values.end() && !is_external) return;
    const OnnxTensor tensor = parser.tensor_of(proto);
    std::string raw;
    if (found != values.end()) {
      raw = raw_of(parser, tensor, found->second);
      ++replaced;
    } else {
      const auto* first = reinterpret_cast<const char*>(tensor.bytes.data());
      raw.assign(first, tensor.bytes.size());
    }
    clear_elements(proto);
    proto.set_raw_data(std::move(raw));
  };
  onnx::GraphProto& graph = *model.mutable_graph();
  for (TensorProto& proto : *graph.mutable_initializer()) replace(proto.name(), proto);
  for (onnx::NodeProto& node : *graph.mutable_node())
    if (holds_weight(node)) replace(node.output(0), *node.mutable_attribute(0)->mutable_t());
  parser.require(replaced == values.size(),
                 "{} of {} values are of initializers: expected all to be", replaced,
                 values.size());
  parser.require(model.ByteSizeLong() < size_t{1} << 31,
                 "with these values inside it would have 2 GiB or more, which exceeds a protobuf "
                 "message: save safetensors instead");
  return model.SerializePartialAsString();
}

}  // namespace accrue
