#include "layers/parameters.h"

#include <algorithm>

#include "layers/module.h"

namespace accrue {
namespace {

// Elements from one slice to the next: whole cache lines.
int64_t aligned_numel(const Shape& shape, DType dtype) {
  const auto step = static_cast<int64_t>(Ledger::alignment / size_of(dtype));
  return (shape.numel() + step - 1) / step * step;
}

Tensor slice_as(const Tensor& flat, int64_t offset, const Shape& shape) {
  return flat.slice(offset, offset + shape.numel()).reshape(shape);
}

}  // namespace

Parameters::Parameters(Module& model, DType dtype, Device device, uint64_t seed) : model_(model) {
  int64_t total = 0, buffer_total = 0;
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    check(!p.tensor.defined(), "parameter {} is already placed in an arena", name);
    total += aligned_numel(p.shape, dtype);
  });
  model.visit_buffers(
      [&](const std::string&, Buffer& b) { buffer_total += aligned_numel(b.shape, dtype); });
  values_ = Tensor::full({total}, 0, dtype, device, Category::parameters);
  gradients_ = Tensor::full({total}, 0, dtype, device, Category::gradients);
  buffers_ = Tensor::full({buffer_total}, 0, dtype, device, Category::parameters);

  int64_t offset = 0;
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    const Tensor value = slice_as(values_, offset, p.shape);
    if (device != Device::meta)
      dispatch_floating(dtype,
                        [&]<class T>() { p.init.fill(value.span<T>(), seed, entries_.size()); });
    p.tensor = require_grad(value);
    p.tensor.variable()->grad = slice_as(gradients_, offset, p.shape);
    entries_.push_back({name, offset, p.tensor});
    offset += aligned_numel(p.shape, dtype);
  });
  offset = 0;
  model.visit_buffers([&](const std::string& name, Buffer& b) {
    b.tensor = slice_as(buffers_, offset, b.shape);
    if (device != Device::meta)
      dispatch_floating(dtype, [&]<class T>() {
        std::ranges::fill(b.tensor.span<T>(), static_cast<T>(b.initial_value));
      });
    named_buffers_.push_back({name, b.tensor});
    offset += aligned_numel(b.shape, dtype);
  });
}

Parameters::~Parameters() {
  model_.visit_parameters([](const std::string&, Parameter& p) { p.tensor.reset(); });
  model_.visit_buffers([](const std::string&, Buffer& b) { b.tensor.reset(); });
}

int64_t Parameters::count() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.tensor.numel();
  return sum;
}

void Parameters::zero_grad() {
  for (Entry& entry : entries_) accrue::zero_grad(entry.tensor);
}

void Parameters::freeze(std::string_view prefix) {
  for (Entry& entry : entries_)
    if (entry.name.starts_with(prefix)) entry.tensor.variable()->frozen = true;
}

void Parameters::unfreeze(std::string_view prefix) {
  for (Entry& entry : entries_)
    if (entry.name.starts_with(prefix)) entry.tensor.variable()->frozen = false;
}

}  // namespace accrue
