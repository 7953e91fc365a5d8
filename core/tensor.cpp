#include "core/tensor.h"

#include <algorithm>
#include <cstring>

#include "core/cuda.h"
#include "core/kernel_trace.h"
#include "core/offload.h"

namespace accrue {
namespace {

// Copies between any two devices. Copies nothing to a meta device.
void copy_bytes(const Tensor& to, const Tensor& from) {
  void* target = to.view().data;
  const void* source = from.view().data;
  if (is_meta(to.device()) || from.bytes() == 0) return;
  if (!source || !target)
    fail(
        "{} on {} cannot be copied to {} on {}, because the {} has no elements: a prediction of "
        "memory, on a meta device, reads none",
        from.describe(), name(from.device()), to.describe(), name(to.device()),
        source ? "second" : "first");
  if (to.device() == Device::cpu && from.device() == Device::cpu)
    std::memcpy(target, source, from.bytes());
  else if (to.device() == Device::cpu) cuda::copy_to_host(target, source, from.bytes());
  else if (from.device() == Device::cpu) cuda::copy_to_device(target, source, from.bytes());
  else cuda::copy_on_device(target, source, from.bytes());
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Category category) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(shape, dtype, device, category);
  KernelTrace::keep(tensor.storage_);
  Offload::note(tensor.storage_);
  return tensor;
}

Tensor Tensor::borrow(const void* data, std::shared_ptr<const void> owner, const Shape& shape,
                      DType dtype, Category category) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(data, std::move(owner), shape, dtype, category);
  return tensor;
}

Tensor Tensor::without_elements(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty({0}, dtype, device, Category::data);
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device,
                    Category category) {
  Tensor tensor = empty(shape, dtype, device, category);
  tensor.fill(value);
  return tensor;
}

void Tensor::fill(double value) const {
  const View all = view();
  storage().overwritten();
  dispatch_floating(dtype_, [&]<class T>() {
    if (is_meta(device())) return;
    if (device() == Device::cuda) return cuda::fill(all, value);
    std::ranges::fill(span<T>(), static_cast<T>(static_cast<Wide<T>>(value)));
  });
}

void Tensor::copy_from(const Tensor& source) const {
  check(source.shape_ == shape_ && source.dtype_ == dtype_, "cannot copy {} {} to {} {}",
        name(source.dtype_), source.shape_, name(dtype_), shape_);
  storage().overwritten();
  copy_bytes(*this, source);
}

Tensor Tensor::to(Device device, Category category) const {
  const MemoryScope scope(MemoryScope::label().empty() ? storage().label() : MemoryScope::label());
  Tensor copy = empty(shape_, dtype_, device, category);
  copy_bytes(copy, *this);
  return copy;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Device device,
                    Category category) {
  check(shape.numel() == static_cast<int64_t>(values.size()),
        "shape {} holds {} elements, got {} values", shape, shape.numel(), values.size());
  Tensor tensor = empty(shape, dtype_of<T>(), device, category);
  if (device == Device::cpu) std::ranges::copy(values, tensor.span<T>().begin());
  else if (device == Device::cuda && !values.empty())
    cuda::copy_to_device(tensor.view().data, values.data(), values.size_bytes());
  return tensor;
}

Storage& Tensor::unchanged_storage() const {
  Storage& own = storage();
  if (saved_version_ && *saved_version_ != own.version()) [[unlikely]]
    fail_overwritten();
  return own;
}

View Tensor::view_at(void* data) const {
  auto* const first = static_cast<std::byte*>(data);
  return {first ? first + offset_bytes_ : nullptr, shape_, dtype_, storage_->device()};
}

View Tensor::view() const { return view_at(unchanged_storage().data()); }

View Tensor::future_view() const { return view_at(unchanged_storage().address()); }

void Tensor::compute_later(std::function<void(const View& elements)> compute) const {
  // The closure has no tensor of this storage, which would then keep itself.
  storage().compute_later([compute = std::move(compute), offset = offset_bytes_,
                           elements = view_at(nullptr)](void* data) {
    View now = elements;
    if (data) now.data = static_cast<std::byte*>(data) + offset;
    compute(now);
  });
}

void Tensor::fail_undefined() {
  fail("an undefined tensor has no elements, and is on no device: expected one that was made");
}

void Tensor::fail_overwritten() const {
  fail(
      "backward() needs {} as forward read it, but somebody has overwritten it since, by fill(), "
      "copy_from(), an optimizer's step or the next micro-batch: call backward() before, also read "
      "a loss that has no backward before, or write to a copy",
      describe());
}

std::string Tensor::describe() const {
  const std::string type = fmt::format("{} {}", name(dtype_), shape_);
  const Label label = defined() ? storage_->label() : Label();
  return label.empty() ? type : fmt::format("'{}' {}", label.text(), type);
}

namespace {

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::f16: return "Half";
    case DType::bf16: return "BFloat16";
    case DType::i32: return "int32_t";
    case DType::u8: return "uint8_t";
    default: break;  // blocks have no separate elements
  }
  return "?";
}

}  // namespace

template <class T>
std::span<T> Tensor::span() const {
  constexpr DType asked = dtype_of<T>();
  check(dtype_ == asked, "span<{}>() of a tensor {} {}: expected span<{}>()", type_name(asked),
        name(dtype_), shape_, type_name(dtype_));
  return {reinterpret_cast<T*>(host_data()), static_cast<size_t>(numel())};
}

std::span<std::byte> Tensor::host_bytes() const { return {host_data(), bytes()}; }

std::byte* Tensor::host_data() const {
  const View v = view();
  if (v.device != Device::cpu)
    fail("the elements of a {} tensor cannot be read on the host: {}", name(v.device), describe());
  if (!v.data && numel() > 0)
    fail("{} is a tensor without elements: they cannot be read", describe());
  return static_cast<std::byte*>(v.data);
}

double Tensor::item() const {
  check(defined() && numel() == 1, "item() needs a tensor of one element, got shape {}", shape_);
  if (device() == Device::cuda) return to(Device::cpu, Category::workspace).item();
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
  result.offset_bytes_ += bytes_of(dtype_, begin * shape_.numel(1, shape_.rank()));
  return result;
}

Tensor Tensor::detach() const {
  Tensor result = *this;
  result.variable_ = nullptr;
  result.saved_version_ = std::nullopt;
  return result;
}

Tensor Tensor::saved() const {
  Tensor result = detach();
  if (defined()) result.saved_version_ = storage_->version();
  return result;
}

Tensor detail::as_f32(const Tensor& tensor) {
  const Tensor host = tensor.device() == Device::cpu ? tensor : tensor.to(Device::cpu);
  if (!is_16_bit_dtype(host.dtype()) && host.dtype() != DType::f64) return host;
  const Tensor result = Tensor::empty(host.shape(), DType::f32, Device::cpu, Category::data);
  dispatch_floating(host.dtype(), [&]<class T>() {
    std::ranges::transform(host.span<T>(), result.span<float>().begin(),
                           [](T x) { return static_cast<float>(x); });
  });
  return result;
}

template Tensor Tensor::from(std::span<const float>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const double>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const Half>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const BFloat16>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const int32_t>, const Shape&, Device, Category);
template Tensor Tensor::from(std::span<const uint8_t>, const Shape&, Device, Category);
template std::span<float> Tensor::span() const;
template std::span<double> Tensor::span() const;
template std::span<Half> Tensor::span() const;
template std::span<BFloat16> Tensor::span() const;
template std::span<int32_t> Tensor::span() const;
template std::span<uint8_t> Tensor::span() const;

}  // namespace accrue
