#include "core/parameters.h"

namespace accrue {
namespace {

// Elements from one slice to the next: whole cache lines.
int64_t aligned_numel(const Shape& shape, DType dtype) {
  const auto step = static_cast<int64_t>(Ledger::alignment / size_of(dtype));
  return (shape.numel() + step - 1) / step * step;
}

// A zero tensor with room for all, and the entries that alias it.
Tensor place_flat(std::vector<Parameters::Entry>& entries, const std::vector<Declaration>& declared,
                  DType dtype, Device device) {
  int64_t total = 0;
  for (const Declaration& d : declared) total += aligned_numel(d.shape, dtype);
  const Tensor flat = Tensor::full({total}, 0, dtype, device, Category::parameters);
  int64_t offset = 0;
  for (const auto& [name, shape] : declared) {
    entries.push_back({name, offset, flat.slice(offset, offset + shape.numel()).reshape(shape)});
    offset += aligned_numel(shape, dtype);
  }
  return flat;
}

}  // namespace

Parameters::Parameters(const std::vector<Declaration>& parameters,
                       const std::vector<Declaration>& buffers, DType dtype, Device device)
    : values_(place_flat(entries_, parameters, dtype, device)),
      gradients_(Tensor::full(values_.shape(), 0, dtype, device, Category::gradients)),
      buffers_(place_flat(buffer_entries_, buffers, dtype, device)) {
  for (auto& [name, offset, tensor] : entries_) {
    tensor = require_grad(tensor);
    tensor.variable()->grad =
        gradients_.slice(offset, offset + tensor.numel()).reshape(tensor.shape());
  }
}

int64_t Parameters::count() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.tensor.numel();
  return sum;
}

void Parameters::zero_grad() const {
  for (const Entry& entry : entries_) accrue::zero_grad(entry.tensor);
}

void Parameters::set_frozen(std::string_view prefix, bool frozen) const {
  for (const Entry& entry : entries_)
    if (entry.name.starts_with(prefix)) entry.tensor.variable()->frozen = frozen;
}

}  // namespace accrue
