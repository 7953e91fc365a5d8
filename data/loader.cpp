#include "data/loader.h"

#include <algorithm>
#include <chrono>

#include "core/ceil_div.h"

namespace accrue {
namespace {

// Samples that are worth waking a thread for.
constexpr int64_t group_samples = 32;

int64_t group_size(const LoaderOptions& options) {
  if (options.prefetch == Prefetch::off) return 1;
  return std::max<int64_t>(1, group_samples / options.micro_batch_size);
}

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
  check(0 <= options.rank && options.rank < options.ranks && options.dealt >= 0,
        "rank {} of {}, dealt micro-batches of {}: expected a rank below their number",
        options.rank, options.ranks, options.dealt);
  return options;
}

// The data set as it is to be seen.
Dataset seen(const Dataset& dataset, Augment augment) {
  Dataset set = dataset;
  if (augment == Augment::no) set.augmentation = {};
  return set;
}

}  // namespace

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(seen(dataset, options.augment)),
      options_(checked(options, dataset)),
      group_size_(group_size(options_)),
      own_samples_(window(windows_per_epoch()).begin) {
  if (plans_for_cuda(options_.device)) {
    feed_ = std::make_unique<DeviceFeed>(dataset_, options_.micro_batch_size, options_.dtype,
                                         options_.device, options_.graphs);
    return;
  }
  const MemoryScope scope("order of the epoch");
  order_ = Tensor::empty({dataset.size()}, DType::i32, options_.device, Category::data);
  const int64_t capacity = std::min(group_size_ * options.micro_batch_size, dataset.size());
  if (dataset_.is_streamed())
    stream_ = std::make_unique<RowStream>(dataset_, capacity, options.device);
  slots_.resize(options.prefetch == Prefetch::on ? 2 : 1);
  for (Samples& slot : slots_)
    slot = empty_samples(dataset, capacity, options.dtype, options.device);
  if (options_.device == Device::cpu && options.prefetch == Prefetch::on)
    thread_ = std::thread(&Loader::prepare_groups, this);
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
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
  const int64_t size = options_.dealt > 0 ? options_.dealt : options_.micro_batch_size;
  const int64_t R = options_.ranks, K = ceil_div(n, size);
  return std::min((rank * (K / R) + std::min<int64_t>(rank, K % R)) * size, n);
}

int64_t Loader::share_of(int rank, int64_t n) const {
  return share_begin(rank + 1, n) - share_begin(rank, n);
}

// Only the last is of another size; with w = windows_per_epoch() it is empty, at the end.
Loader::Range Loader::window(int64_t w) const {
  const int64_t W = windows_per_epoch(), full = own_share(options_.effective_batch_size);
  const int64_t begin = w < W ? w * full : (W - 1) * full + own_share(samples_in(W - 1));
  return {begin, begin + own_share(samples_in(w))};
}

// Counted from the first window. The last may have more micro-batches than others, where a rank's
// share of these ends with a window's remainder.
int64_t Loader::window_of(int64_t j) const {
  return std::min(j / micro_batches_per_window(), windows_per_epoch() - 1 - first_window_);
}

Loader::Range Loader::micro_batch(int64_t j) const {
  const int64_t w = window_of(j), m = options_.micro_batch_size;
  const Range whole = window(first_window_ + w);
  const int64_t begin = whole.begin + (j - w * micro_batches_per_window()) * m;
  return {begin, std::min(begin + m, whole.end)};
}

Loader::Range Loader::group(int64_t g) const {
  const int64_t last = std::min((g + 1) * group_size_, micro_batches_) - 1;
  return {micro_batch(g * group_size_).begin, micro_batch(last).end};
}

void Loader::start_epoch(int64_t epoch, int64_t first_window) {
  const int64_t W = windows_per_epoch();
  check(0 <= first_window && first_window <= W,
        "window {} does not exist: an epoch of data set '{}' has {} windows", first_window,
        dataset_.name, W);
  const MemoryScope phase(Phase::data);
  std::unique_lock lock(mutex_);
  groups_ = 0;
  changed_.wait(lock, [&] { return !preparing_; });
  // The thread now sleeps until groups_ is set again: everything it reads may change.
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
  prepared_ = released_ = 0;
  error_ = nullptr;
  groups_ = ceil_div(micro_batches_, group_size_);
  changed_.notify_all();
}

// Moves the samples of this rank to the front.
void Loader::keep_own(std::span<int32_t> order) const {
  for (int64_t w = 0; w < windows_per_epoch(); ++w) {
    const int64_t first =
        w * options_.effective_batch_size + share_begin(options_.rank, samples_in(w));
    const Range to = window(w);
    std::copy_n(order.begin() + first, to.end - to.begin, order.begin() + to.begin);
  }
}

void Loader::prepare(int64_t g) {
  const Range range = group(g);
  Samples& slot = slots_[g % slots_.size()];
  if (stream_) {
    stream_->wait(range.begin, range.end);
    gather(slot, stream_->ring(), stream_->places(range.begin, range.end));
    return;
  }
  gather(slot, dataset_, order_.span<int32_t>().subspan(range.begin, range.end - range.begin));
}

void Loader::prepare_groups() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      return stop_ || (prepared_ < groups_ && prepared_ < released_ + 2 && !error_);
    });
    if (stop_) return;
    const int64_t g = prepared_;
    preparing_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      prepare(g);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    preparing_ = false;
    error_ = error;
    if (!error) ++prepared_;
    changed_.notify_all();
  }
}

void Loader::wait_for_group(int64_t g) {
  if (is_meta(options_.device)) return;
  const auto begin = std::chrono::steady_clock::now();
  if (options_.prefetch == Prefetch::off) {
    prepare(g);
  } else {
    std::unique_lock lock(mutex_);
    released_ = g;
    changed_.notify_all();
    changed_.wait(lock, [&] { return prepared_ > g || error_; });
    if (prepared_ <= g) std::rethrow_exception(error_);
  }
  waited_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const MicroBatch* Loader::next() {
  check(micro_batches_ >= 0, "next() before start_epoch()");
  const MemoryScope phase(Phase::data);
  current_ = {};
  if (position_ == micro_batches_) return nullptr;
  const Range range = micro_batch(position_), whole = window(first_window_ + window_of(position_));
  if (feed_) {
    feed_->put(current_, range.begin, range.end);
  } else {
    const int64_t g = position_ / group_size_;
    if (position_ % group_size_ == 0) wait_for_group(g);
    const int64_t base = group(g).begin;
    const Samples& slot = slots_[g % slots_.size()];
    static_cast<Samples&>(current_) = slot.slice(range.begin - base, range.end - base);
    current_.indices = order_.slice(range.begin, range.end);
  }
  current_.window_size = samples_in(first_window_ + window_of(position_));
  current_.ends_window = range.end == whole.end;
  ++position_;
  return &current_;
}

}  // namespace accrue
