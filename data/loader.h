#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/device_feed.h"
#include "data/row_stream.h"
#include "data/samples.h"

namespace accrue {

// Says if samples are augmented as the data set says. For training; scores are taken without.
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
  // The micro-batch size by which windows are divided among the ranks, the same on all; 0 for
  // micro_batch_size.
  int64_t share_unit = 0;
};

// Yields a data set as micro-batches, grouped into windows of effective_batch_size samples: window
// w of an epoch is order[w * E, min((w + 1) * E, N)), cut into micro-batches of micro_batch_size
// with an exact remainder; the last window may be short.
//
// If there are several ranks, each has consecutive micro-batches of a window, after those of the
// ranks before it. Their numbers differ by one at most; the first ranks have more, and the last may
// have none. The samples of a window and their order do not depend on the number of ranks.
//
// next() prepares each micro-batch in a slot of a fixed size (Category::data). For cuda there is no
// slot: a DeviceFeed enqueues each micro-batch. The samples of a streamed data set come from a
// RowStream.
// On a meta device the loader charges the same bytes and does nothing.
class Loader {
 public:
  // Throws Error unless 1 <= micro_batch_size <= effective_batch_size <= N, for a data set whose
  // fields do not agree, and for one that is neither on the device of the micro-batches nor on the
  // cpu.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Goes to the start of a window of an epoch. Throws Error unless 0 <= first_window <=
  // windows_per_epoch().
  void start_epoch(int64_t epoch, int64_t first_window = 0);
  // As start_epoch(), except that a loader that has come to this window goes on from there.
  void start_window(int64_t epoch, int64_t window);
  // The next micro-batch, valid until the next call; null at the end of the epoch.
  const MicroBatch* next();

  int64_t windows_per_epoch() const;
  // The number of a rank's samples in a window of n samples.
  int64_t share_of(int rank, int64_t n) const;
  // True if this rank has micro-batches in window `w` of an epoch.
  bool has_share(int64_t w) const { return window(w).end > window(w).begin; }
  // Time that next() has spent preparing since construction. On cuda it waits only for streamed
  // samples.
  double waited_seconds() const { return feed_ ? feed_->waited_seconds() : waited_seconds_; }

 private:
  struct Range {
    int64_t begin, end;  // positions in this rank's part of the epoch's order
  };

  int64_t samples_in(int64_t w) const;
  // Where a rank's share of a window of n samples begins, counted from the window's start.
  int64_t share_begin(int rank, int64_t n) const;
  int64_t own_share(int64_t n) const { return share_of(options_.rank, n); }
  Range window(int64_t w) const;
  int64_t window_of(int64_t j) const;
  // Micro-batch j of the epoch, counted from the first window.
  Range micro_batch(int64_t j) const;
  // The number of this rank's micro-batches in a window that is not the last.
  int64_t micro_batches_per_window() const;
  void keep_own(std::span<int32_t> order) const;
  void prepare(Range range);

  const Dataset dataset_;
  const LoaderOptions options_;
  const int64_t own_samples_;                  // this rank's, in an epoch
  std::unique_ptr<detail::DeviceFeed> feed_;   // for cuda
  std::unique_ptr<detail::RowStream> stream_;  // for others, if the data set is streamed
  Tensor order_;                               // i32 [N]
  Samples slot_;
  MicroBatch current_;
  int64_t first_window_ = 0;
  int64_t micro_batches_ = -1;  // of this epoch; -1: not started
  int64_t position_ = 0;        // the next micro-batch
  int64_t epoch_ = 0;
  int64_t next_window_ = -1;  // that the next micro-batch begins; -1: it begins none
  double waited_seconds_ = 0;
};

}  // namespace accrue
