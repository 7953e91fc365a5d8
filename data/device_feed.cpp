#include "data/device_feed.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "kernels/gather_samples.h"

namespace accrue {
namespace {

// rows[k, :] = all[picked[k], :] for k < n.
void copy_rows(std::byte* rows, const Tensor& all, const int32_t* picked, int64_t n) {
  const size_t size = all.bytes() / static_cast<size_t>(all.size(0));
  const std::byte* source = all.host_bytes().data();
  for (int64_t k = 0; k < n; ++k)
    std::memcpy(rows + static_cast<size_t>(k) * size,
                source + static_cast<size_t>(picked[k]) * size, size);
}

// Indices and weights come as they are; what else is floating comes as the data set has it, and is
// encoded there.
bool is_encoded(const Field& field) { return !comes_as_stored(field.encoding); }

}  // namespace

DeviceFeed::DeviceFeed(const Dataset& dataset, int64_t capacity, DType dtype, Device device,
                       Graphs graphs)
    : dataset_(dataset),
      device_(device),
      order_(static_cast<size_t>(dataset.size())),
      gathers_(device, graphs) {
  const MemoryScope scope("micro-batch");
  slot_ = empty_samples(dataset, capacity, dtype, device);
  indices_ = Tensor::empty({capacity}, DType::i32, device, Category::data);
  if (resident()) {
    const MemoryScope scope_of_order("order of the epoch");
    order_there_ = Tensor::empty({dataset.size()}, DType::i32, device, Category::data);
    position_ = Tensor::empty({2}, DType::i32, device, Category::data);
    return;
  }
  if (dataset.is_streamed())
    stream_ = std::make_unique<RowStream>(dataset_, capacity, dataset.device());
  block_bytes_ = indices_.bytes();
  for (const Field& field : dataset.fields) {
    const Shape shape = field.shape_of(capacity);
    const size_t size = size_of(field.values.dtype());
    begins_.push_back(round_up(block_bytes_, size));
    block_bytes_ = begins_.back() + static_cast<size_t>(shape.numel()) * size;
    if (!is_encoded(field)) continue;
    staged_.fields.push_back(field);
    staged_.fields.back().values =
        Tensor::empty(shape, field.values.dtype(), device, Category::data);
  }
  std::vector<int32_t> counting(static_cast<size_t>(capacity));
  std::iota(counting.begin(), counting.end(), 0);
  counting_ = Tensor::from(counting, {capacity}, device);
  if (is_meta(device)) return;
  for (Staging& s : staging_) {
    s.block = std::make_unique<cuda::PinnedBlock>(block_bytes_, Category::data);
    s.copied = std::make_unique<cuda::Event>();
  }
}

void DeviceFeed::start_epoch(int64_t n, uint64_t seed, int64_t epoch, int64_t begin) {
  if (stream_) stream_->start(order().first(size_t(n)), begin, seed, epoch);
  if (resident()) order_there_.copy_from(Tensor::from(order_, order_there_.shape()));
}

void DeviceFeed::put(MicroBatch& out, int64_t begin, int64_t end) {
  const int64_t n = end - begin;
  mark_overwritten(slot_);
  indices_.mark_overwritten();
  static_cast<Samples&>(out) = slot_.slice(0, n);
  out.indices = indices_.slice(0, n);
  if (is_meta(device_)) return;
  if (resident()) {
    if (std::exchange(known_position_, -1) != begin)
      position_.copy_from(Tensor::from(std::vector{int32_t(begin), 0}, {2}));
    gathers_.run(n, [&] {
      gather_next_samples(views_of(out, dataset_), out.indices.view(), order_there_.view(),
                          position_.view());
    });
    known_position_ = end;
    return;
  }
  stage(begin, end);
  std::vector<FieldViews> encoded;
  for (const Field& field : staged_.fields)
    encoded.push_back({field.encoding, out[field.name].view(), field.values.slice(0, n).view(),
                       field.normalization});
  if (!encoded.empty()) gather_samples(encoded, View{}, counting_.slice(0, n).view());
}

// Waits until the micro-batch before the last has been copied out of this pinned block. If it must
// wait, the device has enough work.
void DeviceFeed::stage(int64_t begin, int64_t end) {
  Staging& s = staging_[turn_++ % staging_.size()];
  if (turn_ > staging_.size()) s.copied->wait();
  const int32_t* picked = order_.data() + begin;
  const int64_t n = end - begin;
  if (stream_) stream_->wait(begin, end);
  auto* const pinned = reinterpret_cast<std::byte*>(s.block->data());
  std::memcpy(pinned, picked, static_cast<size_t>(n) * sizeof(int32_t));
  const auto enqueue_copy = [&](const Tensor& to, const std::byte* from) {
    const Tensor rows = to.slice(0, n);
    cuda::enqueue_copy_to_device(rows.view().data, from, rows.bytes());
  };
  enqueue_copy(indices_, pinned);
  for (size_t f = 0; f < dataset_.fields.size(); ++f) {
    const Field& field = dataset_.fields[f];
    std::byte* const rows = pinned + begins_[f];
    if (stream_)
      copy_rows(rows, stream_->ring().fields[f].values, stream_->places(begin, end).data(), n);
    else copy_rows(rows, field.values, picked, n);
    enqueue_copy(is_encoded(field) ? staged_[field.name] : slot_[field.name], rows);
  }
  s.copied->record();
}

}  // namespace accrue
