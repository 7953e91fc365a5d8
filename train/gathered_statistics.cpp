#include "train/gathered_statistics.h"

#include <algorithm>

#include "core/inside.h"

namespace accrue {
namespace {

// The rows, stacked in a table of `most` rows.
Tensor table_of(const std::vector<Tensor>& rows, int64_t most) {
  const Tensor& first = rows.front();
  const Shape shape{most, first.size(0), first.size(1)};
  const Tensor table = std::ssize(rows) == most
                           ? Tensor::empty(shape, first.dtype(), first.device())
                           : Tensor::full(shape, 0, first.dtype(), first.device());
  for (int64_t i = 0; i < std::ssize(rows); ++i)
    table.slice(i, i + 1).copy_from(rows[size_t(i)].reshape({1, shape[1], shape[2]}));
  return table;
}

}  // namespace

Tensor GatheredStatistics::of_all(const std::vector<Tensor>& own) {
  if (!ranks_) return table_of(own, std::ssize(own));
  const Device device = own.front().device();
  if (is_meta(device)) most_ = std::ssize(own);  // a plan is for the first rank, which has the most
  else if (most_ == 0) count_parts(std::ssize(own));
  const Tensor block = table_of(own, most_);
  const Tensor all =
      Tensor::empty({ranks_->count() * most_, block.size(1), block.size(2)}, block.dtype(), device);
  if (is_meta(device)) return all;
  size_t bytes = block.bytes();
  if (has_idle_) ranks_->broadcast(&bytes, sizeof bytes, 0);
  const Tensor own_block = block.to(Device::cpu), blocks = all.to(Device::cpu);
  ranks_->gather(blocks.host_bytes().data(), own_block.host_bytes().data(), bytes);
  all.copy_from(blocks);
  return all;
}

void GatheredStatistics::follow_others() {
  if (!ranks_) return;
  count_parts(0);
  for (;;) {
    size_t bytes = 0;
    ranks_->broadcast(&bytes, sizeof bytes, 0);
    if (bytes == 0) return;
    const std::vector<std::byte> nothing(bytes);
    std::vector<std::byte> all(bytes * size_t(ranks_->count()));
    ranks_->gather(all.data(), nothing.data(), bytes);
  }
}

void GatheredStatistics::done() {
  size_t nothing = 0;
  if (has_idle_) ranks_->broadcast(&nothing, sizeof nothing, 0);
}

void GatheredStatistics::count_parts(int64_t own) {
  for (const int64_t parts : ranks_->all_of(own)) {
    most_ = std::max(most_, parts);
    has_idle_ = has_idle_ || parts == 0;
  }
}

}  // namespace accrue
