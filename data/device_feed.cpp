#include "data/device_feed.h"

#include <algorithm>
#include <numeric>

#include "kernels/gather_samples.h"

namespace accrue {

DeviceFeed::DeviceFeed(const Dataset& dataset, int64_t capacity, DType dtype, Device device)
    : dataset_(dataset),
      device_(device),
      pixels_(dataset.images.numel() / std::max<int64_t>(1, dataset.size())),
      order_(static_cast<size_t>(dataset.size())) {
  const auto make = [&](const Shape& shape, DType type) {
    return Tensor::empty(shape, type, device, Category::data);
  };
  const Shape images = dataset.images.shape().with(0, capacity);
  slot_ = {make(images, dtype), make({capacity}, DType::i32)};
  samples_ = make({capacity}, DType::i32);
  if (resident()) {
    order_there_ = make({dataset.size()}, DType::i32);
    return;
  }
  staged_images_ = make(images, DType::u8);
  std::vector<int32_t> counting(static_cast<size_t>(capacity));
  std::iota(counting.begin(), counting.end(), 0);
  identity_ = Tensor::from(counting, {capacity}, device);
  if (is_meta(device)) return;
  // Labels and samples first: they need more alignment than bytes do.
  for (Staging& s : staging_) {
    const auto n = static_cast<size_t>(capacity);
    s.block = std::make_unique<cuda::PinnedBlock>(2 * n * sizeof(int32_t) + staged_images_.bytes(),
                                                  Category::data);
    s.copied = std::make_unique<cuda::Event>();
    s.labels = reinterpret_cast<int32_t*>(s.block->data());
    s.samples = s.labels + n;
    s.images = reinterpret_cast<uint8_t*>(s.samples + n);
  }
}

void DeviceFeed::start_epoch(uint64_t seed, int64_t epoch, Shuffle shuffle) {
  if (is_meta(device_)) return;
  epoch_order(order_, seed, epoch, shuffle);
  if (resident()) order_there_.copy_from(Tensor::from(order_, order_there_.shape()));
}

void DeviceFeed::put(MicroBatch& out, int64_t begin, int64_t end) {
  const int64_t n = end - begin;
  out.images = slot_.images.slice(0, n);
  out.labels = slot_.labels.slice(0, n);
  out.samples = samples_.slice(0, n);
  if (is_meta(device_)) return;
  if (resident()) {
    gather_samples(out.images.view(), out.labels.view(), out.samples.view(), dataset_.images.view(),
                   dataset_.labels.view(), order_there_.slice(begin, end).view());
    return;
  }
  stage(begin, end);
  gather_samples(out.images.view(), out.labels.view(), View{}, staged_images_.slice(0, n).view(),
                 out.labels.view(), identity_.slice(0, n).view());
}

// What the last but one micro-batch left in the pinned block has been copied by now, or is waited
// for: then the device has enough to do.
void DeviceFeed::stage(int64_t begin, int64_t end) {
  Staging& s = staging_[turn_++ % staging_.size()];
  if (turn_ > staging_.size()) s.copied->wait();
  const uint8_t* images = dataset_.images.span<uint8_t>().data();
  const int32_t* labels = dataset_.labels.span<int32_t>().data();
  for (int64_t k = 0; k < end - begin; ++k) {
    const int32_t sample = s.samples[k] = order_[static_cast<size_t>(begin + k)];
    s.labels[k] = labels[sample];
    std::copy_n(images + sample * pixels_, pixels_, s.images + k * pixels_);
  }
  const auto n = static_cast<size_t>(end - begin);
  const auto send = [](const Tensor& to, const void* from, size_t bytes) {
    cuda::enqueue_copy_to_device(to.view().data, from, bytes);
  };
  send(staged_images_, s.images, n * static_cast<size_t>(pixels_));
  send(slot_.labels, s.labels, n * sizeof(int32_t));
  send(samples_, s.samples, n * sizeof(int32_t));
  s.copied->record();
}

}  // namespace accrue
