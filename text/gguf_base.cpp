#include "text/gguf_base.h"

#include <cstring>

#include "kernels/quantized_blocks.h"

namespace accrue {
namespace {

Tensor as_stored(const GgufParameter& found, const std::shared_ptr<const GgufFile>& file) {
  const Shape& shape = found.tensor->shape;
  const DType type = found.tensor->type;
  const std::byte* const from = found.tensor->elements.data();
  if (found.rows.empty()) return Tensor::borrow(from, file, shape, type);
  const Tensor own = Tensor::empty(shape, type, Device::cpu, Category::parameters);
  auto* const to = static_cast<std::byte*>(own.view().data);
  const size_t row_bytes = bytes_of(type, shape.numel(1, shape.rank()));
  for (size_t r = 0; r < found.rows.size(); ++r)
    std::memcpy(to + r * row_bytes, from + size_t(found.rows[r]) * row_bytes, row_bytes);
  return own;
}

Tensor in_numbers(const GgufParameter& found, DType dtype) {
  const GgufTensor& stored = *found.tensor;
  const Tensor result = Tensor::empty(stored.shape, dtype, Device::cpu, Category::parameters);
  const int64_t columns = stored.shape.numel(1, stored.shape.rank());
  dispatch_blocks(stored.type, [&]<class Block>() {
    dispatch_floating(dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const auto* from = reinterpret_cast<const Block*>(stored.elements.data());
      for (int64_t r = 0; r < stored.shape[0]; ++r) {
        const int64_t row = found.rows.empty() ? r : found.rows[size_t(r)];
        for (int64_t b = 0; b < columns / elements; ++b)
          widen(from[row * columns / elements + b],
                result.span<T>().data() + r * columns + b * elements);
      }
    });
  });
  return result;
}

}  // namespace

GgufBase::GgufBase(const std::filesystem::path& path)
    : GgufBase(std::make_shared<const GgufFile>(path)) {}

GgufBase::GgufBase(std::shared_ptr<const GgufFile> file)
    : Base(read_gguf_config(*file)), file_(std::move(file)) {}

DType GgufBase::stored_type(const std::string& name, const Shape& shape) const {
  return find_gguf_parameter(*file_, name, shape).tensor->type;
}

Tensor GgufBase::read(const std::string& name, const Shape& shape, DType dtype) const {
  const GgufParameter found = find_gguf_parameter(*file_, name, shape);
  return dtype == found.tensor->type ? as_stored(found, file_) : in_numbers(found, dtype);
}

}  // namespace accrue
