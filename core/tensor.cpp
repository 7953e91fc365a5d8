#include "core/tensor.h"

#include <algorithm>
#include <cstring>

namespace accrue {

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Category category) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(tensor.bytes(), device, category);
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device,
                    Category category) {
  Tensor tensor = empty(shape, dtype, device, category);
  tensor.fill(value);
  return tensor;
}

void Tensor::fill(double value) const {
  if (device() == Device::meta) return;
  dispatch_floating(dtype_,
                    [&]<class T>() { std::ranges::fill(span<T>(), static_cast<T>(value)); });
}

void Tensor::copy_from(const Tensor& source) const {
  check(source.shape_ == shape_ && source.dtype_ == dtype_ && source.device() == device(),
        "cannot copy {} {} on {} to {} {} on {}", name(source.dtype_), source.shape_,
        name(source.device()), name(dtype_), shape_, name(device()));
  if (device() != Device::meta && bytes() > 0)
    std::memcpy(view().data, source.view().data, bytes());
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Device device,
                    Category category) {
  check(shape.numel() == static_cast<int64_t>(values.size()),
        "shape {} holds {} elements, got {} values", shape, shape.numel(), values.size());
  Tensor tensor = empty(shape, dtype_of<T>(), device, category);
  if (device != Device::meta) std::ranges::copy(values, tensor.span<T>().begin());
  return tensor;
}

View Tensor::view() const {
  check(defined(), "an undefined tensor has no elements");
  auto* data = static_cast<std::byte*>(storage_->data());
  return {data ? data + offset_bytes_ : nullptr, shape_, dtype_, storage_->device()};
}

template <class T>
std::span<T> Tensor::span() const {
  const View v = view();
  check(v.device == Device::cpu, "the elements of a {} tensor cannot be read on the host",
        name(v.device));
  return {v.as<T>(), static_cast<size_t>(numel())};
}

double Tensor::item() const {
  check(defined() && numel() == 1, "item() needs a tensor of one element, got shape {}", shape_);
  return dispatch_floating(dtype_, [&]<class T>() { return double(span<T>()[0]); });
}

Tensor Tensor::reshape(const Shape& shape) const {
  check(shape.numel() == numel(), "cannot reshape {} ({} elements) to {} ({} elements)", shape_,
        numel(), shape, shape.numel());
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  check(shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0],
        "rows [{}, {}) are not within shape {}", begin, end, shape_);
  check(!variable_, "slice() of a tensor that is being differentiated; use detach() first");
  Tensor result = *this;
  result.shape_ = shape_.with(0, end - begin);
  result.offset_bytes_ +=
      static_cast<size_t>(begin * shape_.numel(1, shape_.rank())) * size_of(dtype_);
  return result;
}

Tensor Tensor::detach() const {
  Tensor result = *this;
  result.variable_ = nullptr;
  return result;
}

template Tensor Tensor::from(std::span<const float>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const double>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const int32_t>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const uint8_t>, const Shape&, Device, Category);
template std::span<float> Tensor::span() const;
template std::span<double> Tensor::span() const;
template std::span<int32_t> Tensor::span() const;
template std::span<uint8_t> Tensor::span() const;

}  // namespace accrue
