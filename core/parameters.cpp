#include "core/parameters.h"

#include "core/ceil_div.h"

namespace accrue {
namespace {

// Elements from one slice to the next: whole cache lines.
int64_t aligned_numel(const Shape& shape, DType dtype) {
  const auto step = static_cast<int64_t>(Ledger::alignment / size_of(dtype));
  return round_up(shape.numel(), step);
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
                       const std::vector<Declaration>& buffers, DType dtype, DType compute,
                       Device device, GradientStorage storage)
    : values_(place_flat(entries_, parameters, dtype, device)), buffers_([&] {
        const MemoryScope scope("module buffers");
        return place_flat(buffer_entries_, buffers, dtype, device);
      }()) {
  check(wide(compute) == dtype, "parameters are {} for a model that computes in {}: expected {}",
        name(dtype), name(compute), name(wide(compute)));
  for (Entry& entry : entries_) entry.tensor = require_grad(entry.tensor);
  if (compute != dtype) {
    const MemoryScope scope("16-bit weights");
    copies_ = Tensor::full(values_.shape(), 0, compute, device, Category::parameters);
    for (const Entry& entry : entries_) {
      const auto [begin, end] = entry.range();
      entry.tensor.variable()->copy = copies_.slice(begin, end).reshape(entry.tensor.shape());
    }
  }
  if (storage == GradientStorage::on_demand) return;
  gradients_ = Tensor::full(values_.shape(), 0, dtype, device, Category::gradients);
  for (const Entry& entry : entries_) {
    const auto [begin, end] = entry.range();
    entry.tensor.variable()->grad = gradients_.slice(begin, end).reshape(entry.tensor.shape());
  }
}

int64_t Parameters::count() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.tensor.numel();
  return sum;
}

void Parameters::zero_grad() const {
  for (const Entry& entry : entries_) {
    accrue::zero_grad(entry.tensor);
    if (!gradients_.defined()) entry.tensor.variable()->grad.reset();
  }
}

void Parameters::set_frozen(std::string_view prefix, bool frozen) const {
  for (const Entry& entry : entries_)
    if (entry.name.starts_with(prefix)) entry.tensor.variable()->frozen = frozen;
}

}  // namespace accrue
