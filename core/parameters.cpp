#include "core/parameters.h"

#include "core/ceil_div.h"
#include "core/inside.h"

namespace accrue {
namespace {

// The distance from one slice to the next in elements: whole cache lines.
int64_t aligned_numel(const Shape& shape, DType dtype) {
  const auto step = static_cast<int64_t>(Ledger::alignment / size_of(dtype));
  return round_up(shape.numel(), step);
}

// Makes a zero tensor with room for all declared tensors, and the entries that alias it.
Tensor place_flat(std::vector<Parameters::Entry>& entries, const std::vector<Declaration>& declared,
                  DType dtype, Device device) {
  int64_t total = 0;
  for (const Declaration& d : declared) total += aligned_numel(d.shape, dtype);
  const Tensor flat = Tensor::full({total}, 0, dtype, device, Category::parameters);
  int64_t offset = 0;
  for (const Declaration& d : declared) {
    entries.push_back(
        {d.name, offset, flat.slice(offset, offset + d.shape.numel()).reshape(d.shape)});
    offset += aligned_numel(d.shape, dtype);
  }
  return flat;
}

std::vector<Declaration> those_of(const std::vector<Declaration>& declared, bool fixed) {
  std::vector<Declaration> chosen;
  for (const Declaration& d : declared)
    if (d.fixed == fixed) chosen.push_back(d);
  return chosen;
}

// Makes the 16-bit copy of the values, and gives the variables of these entries their parts of it.
Tensor place_copies(const std::vector<Parameters::Entry>& entries, const Tensor& values,
                    DType compute) {
  const MemoryScope scope("16-bit weights");
  const Tensor copies =
      Tensor::full(values.shape(), 0, compute, values.device(), Category::parameters);
  for (const Parameters::Entry& entry : entries) {
    const auto [begin, end] = entry.range();
    entry.tensor.variable()->copy = copies.slice(begin, end).reshape(entry.tensor.shape());
  }
  return copies;
}

int64_t count_of(const std::vector<Parameters::Entry>& entries) {
  int64_t sum = 0;
  for (const Parameters::Entry& entry : entries) sum += entry.tensor.numel();
  return sum;
}

}  // namespace

Parameters::Parameters(const std::vector<Declaration>& parameters,
                       const std::vector<Declaration>& buffers, DType dtype, DType compute,
                       Device device, GradientStorage storage)
    : values_(place_flat(entries_, those_of(parameters, false), dtype, device)), buffers_([&] {
        const MemoryScope scope("module buffers");
        return place_flat(buffer_entries_, buffers, dtype, device);
      }()) {
  check(wide(compute) == dtype, "parameters are {} for a model that computes in {}: expected {}",
        name(dtype), name(compute), name(wide(compute)));
  for (Entry& entry : entries_) entry.tensor = require_grad(entry.tensor);
  if (compute != dtype) copies_ = place_copies(entries_, values_, compute);
  place_fixed(those_of(parameters, true), dtype, compute, device);
  auto trained = entries_.begin(), fixed = fixed_entries_.begin();
  for (const Declaration& d : parameters) all_entries_.push_back(d.fixed ? *fixed++ : *trained++);
  if (storage == GradientStorage::on_demand) return;
  gradients_ = Tensor::full(values_.shape(), 0, dtype, device, Category::gradients);
  for (const Entry& entry : entries_) {
    const auto [begin, end] = entry.range();
    entry.tensor.variable()->grad = gradients_.slice(begin, end).reshape(entry.tensor.shape());
  }
}

// Places the fixed parameters. Their variables are frozen and hold the 16-bit copies.
void Parameters::place_fixed(const std::vector<Declaration>& fixed, DType dtype, DType compute,
                             Device device) {
  if (fixed.empty()) return;
  const MemoryScope scope("fixed weights");
  fixed_values_ = place_flat(fixed_entries_, fixed, dtype, device);
  for (Entry& entry : fixed_entries_) {
    entry.tensor = require_grad(entry.tensor);
    entry.tensor.variable()->frozen = true;
  }
  if (compute != dtype) fixed_copies_ = place_copies(fixed_entries_, fixed_values_, compute);
}

int64_t Parameters::count() const { return count_of(all_entries_); }
int64_t Parameters::trained_count() const { return count_of(entries_); }

void Parameters::mark_overwritten() const {
  values_.mark_overwritten();
  if (copies_.defined()) copies_.mark_overwritten();
}

void Parameters::zero_grad() const {
  for (const Entry& entry : entries_) {
    accrue::zero_grad(entry.tensor);
    if (!gradients_.defined()) entry.tensor.variable()->grad.reset();
  }
}

void Parameters::keep_packed(Pack keep) const {
  for (const Entry& entry : all_entries_)
    entry.tensor.variable()->packed = std::make_unique<PackedForms>(keep);
}

void Parameters::drop_packed() const {
  for (const Entry& entry : all_entries_)
    if (const auto& packed = entry.tensor.variable()->packed) packed->drop();
}

void Parameters::set_frozen(std::string_view prefix, bool frozen) const {
  for (const Entry& entry : entries_)
    if (entry.name.starts_with(prefix)) entry.tensor.variable()->frozen = frozen;
}

}  // namespace accrue
