#include "data/loader.h"

#include <algorithm>
#include <chrono>

#include "core/ceil_div.h"
#include "core/inside.h"

namespace accrue {
namespace {

LoaderOptions checked(const LoaderOptions& options, const Dataset& dataset) {
  dataset.check_fields();
  const Device at = dataset.device();
  const bool reachable = at == options.device || at == Device::cpu ||
                         (at == Device::meta && options.device == Device::meta_cuda);
  check(reachable, "data set '{}' is on the {} device: it has no samples for the {} device",
        dataset.name, name(at), name(options.device));
  const int64_t m = options.micro_batch_size, E = options.effective_batch_size;
  check(m >= 1, "a micro-batch has at least 1 sample, got {}", m);
  check(E >= m,
        "an effective batch of {} cannot be made of micro-batches of {}: the effective batch is at "
        "least the micro-batch",
        E, m);
  check(E <= dataset.size(),
        "an effective batch of {} samples is more than the {} samples of data set '{}'", E,
        dataset.size(), dataset.name);
  check(0 <= options.rank && options.rank < options.ranks && options.share_unit >= 0,
        "rank {} of {}, shares of micro-batches of {}: expected a rank below their number",
        options.rank, options.ranks, options.share_unit);
  return options;
}

// The data set as the options ask for it: with or without augmentation.
Dataset seen(const Dataset& dataset, Augment augment) {
  Dataset set = dataset;
  if (augment == Augment::no) set.augmentation = {};
  return set;
}

}  // namespace

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(seen(dataset, options.augment)),
      options_(checked(options, dataset)),
      own_samples_(window(windows_per_epoch()).begin) {
  if (plans_for_cuda(options_.device)) {
    feed_ = std::make_unique<DeviceFeed>(dataset_, options_.micro_batch_size, options_.dtype,
                                         options_.device, options_.graphs);
    return;
  }
  const MemoryScope scope("order of the epoch");
  order_ = Tensor::empty({dataset.size()}, DType::i32, options_.device, Category::data);
  if (dataset_.is_streamed())
    stream_ = std::make_unique<RowStream>(dataset_, options.micro_batch_size, options.device);
  slot_ = empty_samples(dataset, options.micro_batch_size, options.dtype, options.device);
}

int64_t Loader::windows_per_epoch() const {
  return ceil_div(dataset_.size(), options_.effective_batch_size);
}

int64_t Loader::micro_batches_per_window() const {
  return ceil_div(own_share(options_.effective_batch_size), options_.micro_batch_size);
}

int64_t Loader::samples_in(int64_t w) const {
  const int64_t E = options_.effective_batch_size;
  return std::clamp<int64_t>(dataset_.size() - w * E, 0, E);
}

int64_t Loader::share_begin(int rank, int64_t n) const {
  const int64_t size = options_.share_unit > 0 ? options_.share_unit : options_.micro_batch_size;
  const int64_t R = options_.ranks, K = ceil_div(n, size);
  return std::min((rank * (K / R) + std::min<int64_t>(rank, K % R)) * size, n);
}

int64_t Loader::share_of(int rank, int64_t n) const {
  return share_begin(rank + 1, n) - share_begin(rank, n);
}

// Only the last window has another size. For w = windows_per_epoch() the range is empty, at the
// end.
Loader::Range Loader::window(int64_t w) const {
  const int64_t W = windows_per_epoch(), full = own_share(options_.effective_batch_size);
  const int64_t begin = w < W ? w * full : (W - 1) * full + own_share(samples_in(W - 1));
  return {begin, begin + own_share(samples_in(w))};
}

// The window of micro-batch j, counted from first_window_. The last window may have more
// micro-batches than the others, if this rank's share ends with the window's remainder.
int64_t Loader::window_of(int64_t j) const {
  return std::min(j / micro_batches_per_window(), windows_per_epoch() - 1 - first_window_);
}

Loader::Range Loader::micro_batch(int64_t j) const {
  const int64_t w = window_of(j), m = options_.micro_batch_size;
  const Range whole = window(first_window_ + w);
  const int64_t begin = whole.begin + (j - w * micro_batches_per_window()) * m;
  return {begin, std::min(begin + m, whole.end)};
}

void Loader::start_epoch(int64_t epoch, int64_t first_window) {
  const int64_t W = windows_per_epoch();
  check(0 <= first_window && first_window <= W,
        "window {} does not exist: an epoch of data set '{}' has {} windows", first_window,
        dataset_.name, W);
  const MemoryScope phase(Phase::data);
  next_window_ = -1;
  const int64_t begin = window(first_window).begin;
  if (!is_meta(options_.device)) {
    const std::span<int32_t> order = feed_ ? feed_->order() : order_.span<int32_t>();
    epoch_order(order, options_.seed, epoch, options_.shuffle);
    if (options_.ranks > 1) keep_own(order);
    if (stream_) stream_->start(order.first(size_t(own_samples_)), begin, options_.seed, epoch);
    if (feed_) feed_->start_epoch(own_samples_, options_.seed, epoch, begin);
  }
  first_window_ = first_window;
  position_ = 0;
  const int64_t K = micro_batches_per_window();
  const Range last = window(W - 1);
  micro_batches_ =
      first_window == W
          ? 0
          : (W - 1 - first_window) * K + ceil_div(last.end - last.begin, options_.micro_batch_size);
  epoch_ = epoch;
  next_window_ = first_window;
}

void Loader::start_window(int64_t epoch, int64_t window) {
  if (epoch != epoch_ || window != next_window_) start_epoch(epoch, window);
  if (!has_share(window)) next_window_ = window + 1;
}

// Moves this rank's samples to the front.
void Loader::keep_own(std::span<int32_t> order) const {
  for (int64_t w = 0; w < windows_per_epoch(); ++w) {
    const int64_t first =
        w * options_.effective_batch_size + share_begin(options_.rank, samples_in(w));
    const Range to = window(w);
    std::copy_n(order.begin() + first, to.end - to.begin, order.begin() + to.begin);
  }
}

void Loader::prepare(Range range) {
  if (is_meta(options_.device)) return;
  const auto begin = std::chrono::steady_clock::now();
  if (stream_) {
    stream_->wait(range.begin, range.end);
    gather(slot_, stream_->ring(), stream_->places(range.begin, range.end));
  } else {
    gather(slot_, dataset_, order_.span<int32_t>().subspan(range.begin, range.end - range.begin));
  }
  waited_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const MicroBatch* Loader::next() {
  check(micro_batches_ >= 0, "next() before start_epoch()");
  const MemoryScope phase(Phase::data);
  current_ = {};
  if (position_ == micro_batches_) return nullptr;
  next_window_ = -1;
  const int64_t w = first_window_ + window_of(position_);
  const Range range = micro_batch(position_);
  if (feed_) {
    feed_->put(current_, range.begin, range.end);
  } else {
    mark_overwritten(slot_);
    prepare(range);
    static_cast<Samples&>(current_) = slot_.slice(0, range.end - range.begin);
    current_.indices = order_.slice(range.begin, range.end);
  }
  current_.window_size = samples_in(w);
  current_.ends_window = range.end == window(w).end;
  if (current_.ends_window) next_window_ = w + 1;
  ++position_;
  return &current_;
}

}  // namespace accrue
