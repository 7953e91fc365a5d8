#include "text/gguf_base.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/quantized_matmul.h"
#include "text/models.h"

namespace accrue {
namespace {

Tensor in_numbers(const GgufParameter& found, const Shape& shape, DType dtype) {
  const Tensor result = Tensor::empty(shape, dtype, Device::cpu, Category::parameters);
  auto* const elements = const_cast<std::byte*>(found.tensor->elements.data());
  const View stored{elements, found.shape, found.tensor->type, Device::cpu};
  cpu::widen_slab({result.view().data, matrix_shape(found.shape), dtype, Device::cpu}, stored, 0,
                  0);
  return result;
}

// Keys general.*, but for those that say how this file is written.
std::string general_keys_of(const GgufFile& file) {
  using nlohmann::json;
  constexpr std::array of_file{"general.architecture", "general.type", "general.file_type",
                               "general.quantization_version", "general.alignment"};
  json found = json::object();
  for (const std::string_view key : file.keys()) {
    if (!key.starts_with("general.") || std::ranges::find(of_file, key) != of_file.end()) continue;
    if (const auto value = file.any(key))
      std::visit([&](auto x) { found[std::string(key)] = x; }, *value);
    else found[std::string(key)] = file.texts(key).value();
  }
  return found.empty() ? "" : found.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

PretrainedModel read_gguf_model(const GgufFile& file) {
  PretrainedModel model = read_gguf_config(file);
  find_known_name(model);
  model.title = plain_title(std::string(file.text("general.name").value_or("")));
  if (model.title.empty()) model.title = plain_title(file.path().stem().string());
  const TextEnds ends{file.integer("tokenizer.ggml.bos_token_id"),
                      file.integer("tokenizer.ggml.eos_token_id")};
  const TextModelOptions options =
      text_model_for(text_model(model.name, model.sizes), model.vocabulary, model.context);
  model.files = pretrained_files(options, DType::f32, ends, {});
  if (std::string said = general_keys_of(file); !said.empty())
    model.files[gguf_general_name] = std::move(said);
  return model;
}

GgufBase::GgufBase(const std::filesystem::path& path)
    : GgufBase(std::make_shared<const GgufFile>(path)) {}

GgufBase::GgufBase(std::shared_ptr<const GgufFile> file)
    : Base(read_gguf_model(*file)), file_(std::move(file)) {}

Base::Stored GgufBase::stored(const std::string& name, const Shape& shape) const {
  const GgufParameter found = find_gguf_parameter(*file_, name, shape);
  return {found.shape, found.tensor->type};
}

Tensor GgufBase::matrix(const std::string& name, const Shape& shape) const {
  const GgufParameter found = find_gguf_parameter(*file_, name, shape);
  return Tensor::borrow(found.tensor->elements.data(), file_, found.shape, found.tensor->type);
}

uint32_t GgufBase::checksum_of_elements(uint32_t crc) const {
  for (const GgufTensor& tensor : file_->tensors())
    crc = static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(tensor.elements.data()),
                                        tensor.elements.size()));
  return crc;
}

Tensor GgufBase::vector(const std::string& name, const Shape& shape, DType dtype) const {
  return in_numbers(find_gguf_parameter(*file_, name, shape), shape, dtype);
}

}  // namespace accrue
