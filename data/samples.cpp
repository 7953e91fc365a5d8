#include "data/samples.h"

#include <numeric>
#include <utility>
#include <vector>

#include "core/random.h"

namespace accrue {
namespace {

// Keeps the shuffle's random numbers apart from every other use of the seed.
constexpr uint64_t order_stream = uint64_t{0x6f72} << 48;

}  // namespace

void epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle) {
  std::iota(order.begin(), order.end(), 0);
  if (shuffle == Shuffle::off) return;
  RandomStream random(seed, order_stream + static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
}

Samples Samples::slice(int64_t begin, int64_t end) const {
  const auto part = [&](const Tensor& x) { return x.defined() ? x.slice(begin, end) : Tensor{}; };
  return {part(images), part(labels), part(masks)};
}

Samples empty_samples(const Dataset& dataset, int64_t n, DType dtype, Device device) {
  const MemoryScope scope("micro-batch");
  const auto like = [&](const Tensor& x, DType type) {
    return x.defined() ? Tensor::empty(x.shape().with(0, n), type, device, Category::data)
                       : Tensor{};
  };
  return {like(dataset.images, dtype), like(dataset.labels, DType::i32),
          like(dataset.masks, dtype)};
}

void gather(Samples& out, const Dataset& dataset, std::span<const int32_t> samples) {
  const int64_t N = dataset.size(), n = static_cast<int64_t>(samples.size());
  check(n <= out.size(), "{} samples do not fit images {}", n, out.images.shape());
  const auto all_labels =
      dataset.labels.defined() ? dataset.labels.span<int32_t>() : std::span<int32_t>{};
  for (const int32_t i : samples) {
    check(0 <= i && i < N, "sample {} is not in data set '{}' of {} samples", i, dataset.name, N);
    if (all_labels.empty()) continue;
    const int32_t label = all_labels[static_cast<size_t>(i)];
    check(0 <= label && label < dataset.classes,
          "data set '{}': sample {} has label {}, expected 0 to {}", dataset.name, i, label,
          dataset.classes - 1);
  }
  const View index{const_cast<int32_t*>(samples.data()), {n}, DType::i32, Device::cpu};
  gather_samples(out.slice(0, n).views(), View{}, dataset.views(), index);
}

Samples gather(const Dataset& dataset, int64_t begin, int64_t end, DType dtype) {
  check(0 <= begin && begin <= end && end <= dataset.size(),
        "samples [{}, {}) are not within the {} of data set '{}'", begin, end, dataset.size(),
        dataset.name);
  const Device device = dataset.images.device();
  Samples out = empty_samples(dataset, end - begin, dtype, device);
  if (is_meta(device)) return out;
  std::vector<int32_t> samples(static_cast<size_t>(end - begin));
  std::iota(samples.begin(), samples.end(), static_cast<int32_t>(begin));
  gather(out, dataset, samples);
  return out;
}

}  // namespace accrue
