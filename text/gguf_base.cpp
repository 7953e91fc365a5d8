#include "text/gguf_base.h"

#include <zlib.h>

#include "kernels/quantized_matmul.h"

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

}  // namespace

GgufBase::GgufBase(const std::filesystem::path& path)
    : GgufBase(std::make_shared<const GgufFile>(path)) {}

GgufBase::GgufBase(std::shared_ptr<const GgufFile> file)
    : Base(read_gguf_config(*file)), file_(std::move(file)) {}

Tensor GgufBase::widened(const std::string& name, const Shape& shape) const {
  return in_numbers(find_gguf_parameter(*file_, name, shape), shape, DType::f32);
}

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
