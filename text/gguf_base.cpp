#include "text/gguf_base.h"

#include <cstring>

#include "core/autograd.h"
#include "kernels/quantized_blocks.h"

namespace accrue {
namespace {

// Rows of `found`, in the order of the parameter, `row_bytes` each.
void copy_rows(std::byte* to, const GgufParameter& found, size_t row_bytes) {
  const std::byte* const from = found.tensor->elements.data();
  if (found.rows.empty()) {
    std::memcpy(to, from, found.tensor->elements.size());
    return;
  }
  for (size_t r = 0; r < found.rows.size(); ++r)
    std::memcpy(to + r * row_bytes, from + size_t(found.rows[r]) * row_bytes, row_bytes);
}

Tensor in_blocks(const GgufParameter& found, const std::shared_ptr<const GgufFile>& file) {
  const Shape& shape = found.tensor->shape;
  const DType type = found.tensor->type;
  if (found.rows.empty()) return Tensor::borrow(found.tensor->elements.data(), file, shape, type);
  const Tensor own = Tensor::empty(shape, type, Device::cpu, Category::parameters);
  copy_rows(static_cast<std::byte*>(own.view().data), found, bytes_of(type, shape[1]));
  return own;
}

Tensor in_numbers(const GgufParameter& found, DType compute) {
  const GgufTensor& stored = *found.tensor;
  const Tensor result = Tensor::empty(stored.shape, compute, Device::cpu, Category::parameters);
  const int64_t columns = stored.shape.numel(1, stored.shape.rank());
  dispatch_blocks(stored.type, [&]<class Block>() {
    dispatch_floating(compute, [&]<class T>() {
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
    : file_(std::make_shared<const GgufFile>(path)), model_(read_gguf_config(*file_)) {}

Tensor GgufBase::parameter(const std::string& name, const Shape& shape, DType compute,
                           Device device) const {
  const GgufParameter found = find_gguf_parameter(*file_, name, shape);
  const auto there = [&](DType dtype) {
    if (is_meta(device)) return Tensor::empty(shape, dtype, device, Category::parameters);
    const Tensor host = is_quantized(dtype) ? in_blocks(found, file_) : in_numbers(found, dtype);
    return device == Device::cpu ? host : host.to(device, Category::parameters);
  };
  if (is_quantized(found.tensor->type)) return there(found.tensor->type);
  if (!is_16_bit_dtype(compute)) return there(compute);
  // As other fixed parameters are: ops read one or the other.
  const Tensor value = require_grad(there(wide(compute)));
  value.variable()->frozen = true;
  value.variable()->copy = there(compute);
  return value;
}

Tensor GgufBase::widened(const std::string& name, const Shape& shape) const {
  return in_numbers(find_gguf_parameter(*file_, name, shape), DType::f32);
}

void take_from(const GgufBasePtr& base, Module& model) {
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    p.source = [base, name, shape = p.shape](DType compute, Device device) {
      return base->parameter(name, shape, compute, device);
    };
  });
}

}  // namespace accrue
