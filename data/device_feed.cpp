#include "data/device_feed.h"

#include <algorithm>
#include <numeric>

#include "kernels/gather_samples.h"

namespace accrue {
namespace {

// The first n rows of x.
void enqueue_copy(const Tensor& x, const void* pinned, int64_t n) {
  cuda::enqueue_copy_to_device(x.view().data, pinned, x.slice(0, n).bytes());
}

// x[k, :] = all[picked[k], :] for k < n, by way of pinned memory; nothing if there is no x.
template <class T>
void stage_rows(const Tensor& x, T* pinned, const Tensor& all, const int32_t* picked, int64_t n) {
  if (!x.defined()) return;
  const T* source = all.span<T>().data();
  const int64_t size = x.numel() / x.size(0);
  for (int64_t k = 0; k < n; ++k) std::copy_n(source + picked[k] * size, size, pinned + k * size);
  enqueue_copy(x, pinned, n);
}

}  // namespace

DeviceFeed::DeviceFeed(const Dataset& dataset, int64_t capacity, DType dtype, Device device)
    : dataset_(dataset), device_(device), order_(static_cast<size_t>(dataset.size())) {
  const MemoryScope scope("micro-batch");
  const auto make = [&](const Shape& shape, DType type) {
    return Tensor::empty(shape, type, device, Category::data);
  };
  slot_ = empty_samples(dataset, capacity, dtype, device);
  samples_ = make({capacity}, DType::i32);
  if (resident()) {
    const MemoryScope scope_of_order("order of the epoch");
    order_there_ = make({dataset.size()}, DType::i32);
    return;
  }
  staged_images_ = make(slot_.images.shape(), DType::u8);
  if (slot_.masks.defined()) staged_masks_ = make(slot_.masks.shape(), DType::u8);
  std::vector<int32_t> counting(static_cast<size_t>(capacity));
  std::iota(counting.begin(), counting.end(), 0);
  identity_ = Tensor::from(counting, {capacity}, device);
  if (is_meta(device)) return;
  // Samples and labels first: they need more alignment than bytes do.
  const auto bytes_of = [](const Tensor& x) { return x.defined() ? x.bytes() : 0; };
  for (Staging& s : staging_) {
    s.block =
        std::make_unique<cuda::PinnedBlock>(samples_.bytes() + bytes_of(slot_.labels) +
                                                staged_images_.bytes() + bytes_of(staged_masks_),
                                            Category::data);
    s.copied = std::make_unique<cuda::Event>();
    s.samples = reinterpret_cast<int32_t*>(s.block->data());
    s.labels = s.samples + samples_.numel();
    s.images = reinterpret_cast<uint8_t*>(s.labels) + bytes_of(slot_.labels);
    s.masks = s.images + staged_images_.bytes();
  }
}

void DeviceFeed::start_epoch(uint64_t seed, int64_t epoch, Shuffle shuffle) {
  if (is_meta(device_)) return;
  epoch_order(order_, seed, epoch, shuffle);
  if (resident()) order_there_.copy_from(Tensor::from(order_, order_there_.shape()));
}

void DeviceFeed::put(MicroBatch& out, int64_t begin, int64_t end) {
  const int64_t n = end - begin;
  static_cast<Samples&>(out) = slot_.slice(0, n);
  out.samples = samples_.slice(0, n);
  if (is_meta(device_)) return;
  if (resident()) {
    gather_samples(out.views(), out.samples.view(), dataset_.views(),
                   order_there_.slice(begin, end).view());
    return;
  }
  stage(begin, end);
  // The labels have come as they are.
  const Samples staged = Samples{staged_images_, {}, staged_masks_}.slice(0, n);
  gather_samples({out.images.view(), {}, view_of(out.masks)}, View{}, staged.views(),
                 identity_.slice(0, n).view());
}

// What the last but one micro-batch left in the pinned block has been copied by now, or is waited
// for: then the device has enough to do.
void DeviceFeed::stage(int64_t begin, int64_t end) {
  Staging& s = staging_[turn_++ % staging_.size()];
  if (turn_ > staging_.size()) s.copied->wait();
  const int32_t* picked = order_.data() + begin;
  const int64_t n = end - begin;
  std::copy_n(picked, n, s.samples);
  enqueue_copy(samples_, s.samples, n);
  stage_rows(slot_.labels, s.labels, dataset_.labels, picked, n);
  stage_rows(staged_images_, s.images, dataset_.images, picked, n);
  stage_rows(staged_masks_, s.masks, dataset_.masks, picked, n);
  s.copied->record();
}

}  // namespace accrue
