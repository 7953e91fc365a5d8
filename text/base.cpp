#include "text/base.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/autograd.h"
#include "data/mapped_file.h"
#include "kernels/quantize.h"
#include "kernels/quantized_matmul.h"
#include "text/models.h"

namespace accrue {

Tensor Base::parameter(const std::string& name, const Shape& shape, DType compute,
                       Device device) const {
  const Stored kept = stored(name, shape);
  const auto on_device = [&](const Shape& of, DType dtype, auto&& read) {
    if (is_meta(device)) return Tensor::empty(of, dtype, device, Category::parameters);
    const Tensor host = read();
    return device == Device::cpu ? host : host.to(device, Category::parameters);
  };
  if (shape.rank() == 2)
    return on_device(kept.shape, kept.type, [&] { return matrix(name, shape); });
  const auto there = [&](DType dtype) {
    return on_device(shape, dtype, [&] { return vector(name, shape, dtype); });
  };
  if (!is_16_bit_dtype(compute)) return there(compute);
  // Like other fixed parameters: an op reads either the float32 value or its copy.
  const Tensor value = require_grad(there(wide(compute)));
  value.variable()->frozen = true;
  value.variable()->copy = there(compute);
  return value;
}

Tensor Base::widened(const std::string& name, const Shape& shape) const {
  if (shape.rank() != 2) return vector(name, shape, DType::f32);
  const Tensor there = matrix(name, shape);
  const Tensor result = Tensor::empty(shape, DType::f32, Device::cpu, Category::parameters);
  cpu::widen_slab(result.view(), there.view(), 0, 0);
  return result;
}

std::string Base::checksum() const {
  if (!checksum_.empty()) return checksum_;
  const TextModelOptions model =
      text_model_for(text_model(model_.name, model_.sizes), model_.vocabulary, 1);
  const std::string config = pretrained_config(model, DType::f32);
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(config.data()), config.size()));
  checksum_ = fmt::format("{:08x}", checksum_of_elements(crc));
  return checksum_;
}

void detail::take_from(const BasePtr& base, Module& model) {
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    p.source = [base, name, shape = p.shape](DType compute, Device device) {
      return base->parameter(name, shape, compute, device);
    };
  });
}

SafetensorsBase::SafetensorsBase(const std::filesystem::path& path, PretrainedModel model,
                                 std::optional<int> bits)
    : Base(std::move(model)), path_(path), bits_(bits), header_(read_safetensors_header(path)) {}

Base::Stored SafetensorsBase::stored(const std::string& name, const Shape& shape) const {
  const auto& entries = header_.entries;
  const auto found = std::ranges::find(entries, name, &SafetensorsHeader::Entry::name);
  check(found != entries.end() && found->shape == shape,
        "'{}' has {}, expected {} {} for the base of adapters", path_.string(),
        found == entries.end() ? "no " + name : fmt::format("{} {}", name, found->shape), name,
        shape);
  if (shape.rank() == 2 && bits_) {
    if (*bits_ == 16) return {shape, DType::bf16};
    const DType blocks = *bits_ == 4 ? DType::q4_0 : DType::q8_0;
    if (shape[1] % block_elements(blocks) == 0) return {shape, blocks};
  }
  return {shape, is_stored_type(found->dtype) ? found->dtype : DType::f32};
}

uint32_t SafetensorsBase::checksum_of_elements(uint32_t crc) const {
  const MappedFile file(path_);
  uint64_t header = 0;  // the size of the header, which precedes it
  std::memcpy(&header, file.bytes().data(), sizeof header);
  const auto elements = file.bytes().subspan(sizeof header + header);
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(elements.data()), elements.size()));
}

Tensor SafetensorsBase::vector(const std::string& name, const Shape& shape, DType dtype) const {
  const Tensor result = Tensor::empty(shape, dtype, Device::cpu, Category::parameters);
  auto* const bytes = static_cast<std::byte*>(result.view().data);
  const auto wanted = [&](const std::string& other) { return other == name; };
  read_safetensors_pieces(
      path_, wanted, [&](const std::string&, int64_t first, const Tensor& piece) {
        if (is_quantized(dtype))
          return quantize({bytes + bytes_of(dtype, first), bytes_of(dtype, piece.numel())},
                          as_f32(piece).span<float>(), dtype);
        dispatch_floating(piece.dtype(), [&]<class From>() {
          dispatch_floating(dtype, [&]<class To>() {
            std::ranges::transform(piece.span<From>(), result.span<To>().data() + first,
                                   [](From x) { return To(widen(x)); });
          });
        });
      });
  return result;
}

namespace {

Tensor in_numbers(const GgufParameter& found, const Shape& shape, DType dtype) {
  const Tensor result = Tensor::empty(shape, dtype, Device::cpu, Category::parameters);
  auto* const elements = const_cast<std::byte*>(found.tensor->elements.data());
  const View stored{elements, found.shape, found.tensor->type, Device::cpu};
  cpu::widen_slab({result.view().data, matrix_shape(found.shape), dtype, Device::cpu}, stored, 0,
                  0);
  return result;
}

// The keys general.*, except those that describe how this file is written.
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

PretrainedModel detail::read_gguf_model(const GgufFile& file) {
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
