#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/device_feed.h"
#include "data/row_stream.h"
#include "data/samples.h"

namespace accrue {

// Whether samples are augmented, if the data set has an augmentation. Scores are taken without.
enum class Augment { no, yes };

// How a data set is cut into windows and micro-batches, and in which order.
struct LoaderOptions {
  int64_t effective_batch_size = 64;
  int64_t micro_batch_size = 64;
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::on;
  Device device = Device::cpu;  // of the micro-batches
  DType dtype = DType::f32;
  Augment augment = Augment::no;
  Graphs graphs = Graphs::off;  // on cuda: replays gathers (core/replay.h)
  // This rank's number, and the number of ranks that share each window (accumulate/ranks.h).
  int rank = 0, ranks = 1;
  // The micro-batch size by which windows are divided among the ranks, the same on all ranks; 0 for
  // micro_batch_size.
  int64_t share_unit = 0;
};

// Yields a data set as micro-batches, grouped into windows of E = effective_batch_size samples:
// window w of an epoch is order[w * E, min((w + 1) * E, N)). Its micro-batches have
// micro_batch_size samples; the last one of a window has the remainder. The last window may be
// short.
//
// If several ranks share a window, each takes consecutive micro-batches, after the ranks before it.
// The ranks' numbers of micro-batches differ by at most one: the first ranks have more, and the
// last may have none. The samples of a window and their order do not depend on the number of ranks.
//
// On the cpu, next() prepares each micro-batch in a slot of a fixed size (Category::data). On cuda,
// a DeviceFeed enqueues each micro-batch instead. The samples of a streamed data set come from a
// RowStream. On a meta device the loader charges the same bytes and does nothing.
class Loader {
 public:
  // Throws Error unless 1 <= micro_batch_size <= effective_batch_size <= N. Throws Error, too, if
  // the data set's fields do not agree, or if it lies neither on the micro-batches' device nor on
  // the cpu.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Goes to the start of a window of an epoch. Throws Error unless 0 <= first_window <=
  // windows_per_epoch().
  void start_epoch(int64_t epoch, int64_t first_window = 0);
  // As start_epoch(), but continues if the loader has already reached this window.
  void start_window(int64_t epoch, int64_t window);
  // The next micro-batch, valid until the next call; null at the end of the epoch.
  const MicroBatch* next();

  int64_t windows_per_epoch() const;
  // The number of samples that a rank has in a window of n samples.
  int64_t share_of(int rank, int64_t n) const;
  // True if this rank has micro-batches in window `w` of an epoch.
  bool has_share(int64_t w) const { return window(w).end > window(w).begin; }
  // The time that next() has spent preparing since construction. On cuda it counts only the time
  // spent waiting for streamed samples.
  double waited_seconds() const { return feed_ ? feed_->waited_seconds() : waited_seconds_; }

 private:
  struct Range {
    int64_t begin, end;  // positions in this rank's part of the epoch's order
  };

  int64_t samples_in(int64_t w) const;
  // The position, in a window of n samples, at which a rank's share begins.
  int64_t share_begin(int rank, int64_t n) const;
  int64_t own_share(int64_t n) const { return share_of(options_.rank, n); }
  Range window(int64_t w) const;
  int64_t window_of(int64_t j) const;
  // The range of micro-batch j, counted from first_window_.
  Range micro_batch(int64_t j) const;
  // The number of this rank's micro-batches in each window except the last.
  int64_t micro_batches_per_window() const;
  void keep_own(std::span<int32_t> order) const;
  void prepare(Range range);

  const Dataset dataset_;
  const LoaderOptions options_;
  const int64_t own_samples_;                  // the samples of this rank in an epoch
  std::unique_ptr<detail::DeviceFeed> feed_;   // for cuda
  std::unique_ptr<detail::RowStream> stream_;  // for other devices, if the data set is streamed
  Tensor order_;                               // i32 [N]
  Samples slot_;
  MicroBatch current_;
  int64_t first_window_ = 0;
  int64_t micro_batches_ = -1;  // of this epoch; -1: not started
  int64_t position_ = 0;        // the next micro-batch
  int64_t epoch_ = 0;
  int64_t next_window_ = -1;  // the window that the next micro-batch begins; -1: none
  double waited_seconds_ = 0;
};

}  // namespace accrue
