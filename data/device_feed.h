#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/cuda.h"
#include "core/replay.h"
#include "data/row_stream.h"
#include "data/samples.h"

namespace accrue::detail {

// Puts micro-batches into the same tensors each time, so that recorded work on a CUDA device can
// read them, and does not wait for the device. If the data set lies on the device, a kernel gathers
// the samples. If it lies on the host, they are gathered there as bytes in two pinned blocks: one
// is filled while the other is copied. For a streamed data set a RowStream provides the bytes. On
// Device::meta_cuda this charges the same bytes and does nothing.
class DeviceFeed {
 public:
  // Feeds micro-batches of at most `capacity` samples. With graphs, gathers are replayed, so they
  // can be launched together with the work between them.
  DeviceFeed(const Dataset& dataset, int64_t capacity, DType dtype, Device device, Graphs graphs);

  // The order of an epoch's samples, which the caller fills before the epoch starts.
  std::span<int32_t> order() { return order_; }
  // Starts an epoch of the first n samples of order(). Its micro-batches begin at position `begin`.
  void start_epoch(int64_t n, uint64_t seed, int64_t epoch, int64_t begin);
  // Puts samples [begin, end) of the order into `out`, which is valid until the next call.
  void put(MicroBatch& out, int64_t begin, int64_t end);
  // Time spent waiting for streamed samples, since construction.
  double waited_seconds() const { return stream_ ? stream_->waited_seconds() : 0; }

 private:
  bool resident() const { return dataset_.device() == device_; }
  void stage(int64_t begin, int64_t end);

  // The bytes of a micro-batch on their way to the device: the indices of the samples, then the
  // rows of each field, as the data set stores them, from begins_[field] on.
  struct Staging {
    std::unique_ptr<cuda::PinnedBlock> block;
    std::unique_ptr<cuda::Event> copied;
  };

  const Dataset dataset_;
  const Device device_;
  std::vector<int32_t> order_;
  std::unique_ptr<RowStream> stream_;  // if the data set is streamed
  Samples slot_;
  Tensor indices_;  // i32 [capacity]
  // For a data set on the device: the order i32 [N], and gather_next_samples()'s position in it,
  // i32 [2]. The host knows the position as known_position_; -1: unknown.
  Tensor order_there_, position_;
  int64_t known_position_ = -1;
  Replays<int64_t> gathers_;  // by the number of samples
  // For a data set on the host: staging tensors for the fields that the device encodes, and the
  // indices 0, 1, 2, ... into them; the offset of each field in a pinned block, and the block's
  // size.
  Dataset staged_;
  Tensor counting_;
  std::vector<size_t> begins_;
  size_t block_bytes_ = 0;
  std::array<Staging, 2> staging_;
  size_t turn_ = 0;
};

}  // namespace accrue::detail
