#include "data/row_stream.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/inside.h"
#include "data/samples.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

int64_t places_for(const Dataset& dataset, int64_t most) {
  constexpr int64_t ahead_bytes = int64_t{64} << 20, ahead_samples = 1024;
  const int64_t ahead = std::clamp<int64_t>(
      ahead_bytes / std::max<int64_t>(1, int64_t(bytes_of_sample(dataset))), 1, ahead_samples);
  return std::min(dataset.size(), std::max(2 * most, ahead));
}

}  // namespace

RowStream::RowStream(const Dataset& dataset, int64_t most, Device device) : dataset_(dataset) {
  const MemoryScope scope("samples read ahead");
  ring_ = empty_rows(dataset, places_for(dataset, most), device);
  if (is_meta(device)) return;
  places_.resize(static_cast<size_t>(ring_.size()));
  const int64_t wanted = std::min<int64_t>(thread_count(), ring_.size());
  threads_.reserve(static_cast<size_t>(wanted));
  try {
    while (std::ssize(threads_) < wanted) threads_.emplace_back(&RowStream::read_ahead, this);
  } catch (const std::system_error& error) {
    // The stream runs with fewer threads if the system cannot start all.
    check(!threads_.empty(), "no thread can be started to read '{}': {}", dataset.name,
          error.what());
  }
}

RowStream::~RowStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RowStream::start(std::span<const int32_t> order, int64_t begin, uint64_t seed, int64_t epoch) {
  std::unique_lock lock(mutex_);
  next_ = std::ssize(order_);  // so no thread starts to read a sample
  read_.wait(lock, [&] { return reading_ == 0; });
  order_.assign(order.begin(), order.end());
  seed_ = seed;
  epoch_ = epoch;
  std::ranges::fill(places_, Place{});
  next_ = needed_ = begin;
  wanted_.notify_all();
}

void RowStream::wait(int64_t begin, int64_t end) {
  if (places_.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  check(needed_ <= begin && begin <= end && end <= std::min(begin + ring_.size(), dataset_.size()),
        "samples {} to {} of the order are no longer held, or are more than the {} places", begin,
        end, ring_.size());
  needed_ = begin;
  // Wakes the threads if there is room for many samples, or if a sample is needed now.
  if (next_ < end || begin + ring_.size() - next_ >= ring_.size() / 4) wanted_.notify_all();
  for (int64_t position = begin; position < end; ++position)
    read_.wait(lock, [&] { return place_of(position).position == position; });
  waited_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (int64_t position = begin; position < end; ++position)
    if (const std::exception_ptr error = place_of(position).error) std::rethrow_exception(error);
}

std::vector<int32_t> RowStream::places(int64_t begin, int64_t end) const {
  std::vector<int32_t> places;
  for (int64_t position = begin; position < end; ++position)
    places.push_back(static_cast<int32_t>(position % ring_.size()));
  return places;
}

RowStream::Place& RowStream::place_of(int64_t position) {
  return places_[static_cast<size_t>(position) % places_.size()];
}

bool RowStream::may_read() const {
  return next_ < std::min(std::ssize(order_), needed_ + ring_.size());
}

void RowStream::read(int64_t position) {
  const int32_t sample = order_[static_cast<size_t>(position)];
  const SampleChange change =
      dataset_.augmentation ? dataset_.augmentation(seed_, epoch_, sample) : SampleChange{};
  for (size_t f = 0; f < ring_.fields.size(); ++f) {
    const Field& field = ring_.fields[f];
    const std::span<std::byte> row = row_of(field.values, position % ring_.size());
    read_row(row, dataset_.fields[f], sample, change.place);
    if (change.apply) change.apply(row, field);
  }
}

void RowStream::read_ahead() {
  block_signals();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stop_ || may_read(); });
    if (stop_) return;
    const int64_t position = next_++;
    ++reading_;
    lock.unlock();
    std::exception_ptr error;
    try {
      read(position);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --reading_;
    place_of(position) = {position, error};
    read_.notify_all();
  }
}

}  // namespace accrue
