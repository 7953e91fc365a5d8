#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/dataset.h"

namespace accrue::detail {

// Reads and augments the samples of an epoch before they are needed. It has as many threads as the
// kernels have (kernels/parallel.h); they run while the computation leaves a processor idle or
// waits for them. It holds samples as the data set stores them, in a ring with a fixed number of
// places (Category::data): two micro-batches, plus as many more samples as fit in 64 MiB, at most
// 1024. This number depends neither on the window nor on the threads, so a plan for any window
// knows it. On a meta device it charges the same bytes and does nothing.
class RowStream {
 public:
  // Serves at most `most` samples at a time. `device` is the cpu or meta.
  RowStream(const Dataset& dataset, int64_t most, Device device);
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  // Starts at position `begin` of an order of samples. The seed and the epoch determine their
  // augmentation.
  void start(std::span<const int32_t> order, int64_t begin, uint64_t seed, int64_t epoch);
  // Waits until samples [begin, end) of the order have been read, and frees the places of earlier
  // samples. If some could not be read, throws the error of the first.
  void wait(int64_t begin, int64_t end);
  // ring() holds the samples as fields [R, ...]; places() returns the places of samples [begin,
  // end) in them. Both are valid until the next call of wait().
  const Dataset& ring() const { return ring_; }
  std::vector<int32_t> places(int64_t begin, int64_t end) const;

  // Time spent in wait() since construction.
  double waited_seconds() const { return waited_seconds_; }

 private:
  // A place in the ring. `error` is the error of reading its sample.
  struct Place {
    int64_t position = -1;  // in the order, of the sample in this place
    std::exception_ptr error{};
  };
  Place& place_of(int64_t position);
  void read(int64_t position);
  void read_ahead();
  bool may_read() const;

  const Dataset dataset_;
  Dataset ring_;
  std::vector<int32_t> order_;
  uint64_t seed_ = 0;
  int64_t epoch_ = 0;
  double waited_seconds_ = 0;

  // Shared with the threads, under mutex_.
  std::mutex mutex_;
  std::condition_variable wanted_, read_;
  std::vector<Place> places_;
  int64_t next_ = 0;    // the first position that no thread has begun
  int64_t needed_ = 0;  // the first position whose place is not free yet
  int reading_ = 0;     // the number of threads that are reading
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace accrue::detail
