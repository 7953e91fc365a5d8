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

// Puts micro-batches where kernels on a CUDA device find them: always in the same tensors, so that
// recorded work can read them, and without waiting for the device. A kernel gathers a data set that
// lies on the device. A data set on the host is gathered there as bytes, into two pinned blocks in
// turn, of which one is filled while the other is being copied; the bytes of a streamed one come
// from a RowStream. On Device::meta_cuda this charges the same bytes and does nothing.
class DeviceFeed {
 public:
  // Feeds micro-batches of at most `capacity` samples. With graphs, gathers are replayed, so that
  // they can be launched together with the work between them.
  DeviceFeed(const Dataset& dataset, int64_t capacity, DType dtype, Device device, Graphs graphs);

  // The order of an epoch's samples, to be filled before it starts.
  std::span<int32_t> order() { return order_; }
  // Starts an epoch of the first n samples of order(), with the place where micro-batches begin.
  void start_epoch(int64_t n, uint64_t seed, int64_t epoch, int64_t begin);
  // Puts samples [begin, end) of the order into `out`, valid until the next call.
  void put(MicroBatch& out, int64_t begin, int64_t end);
  // Time spent waiting for streamed samples, since construction.
  double waited_seconds() const { return stream_ ? stream_->waited_seconds() : 0; }

 private:
  bool resident() const { return dataset_.device() == device_; }
  void stage(int64_t begin, int64_t end);

  // Bytes of a micro-batch on their way to the device: the indices of the samples, then each
  // field's rows as the data set has them, from `begin` on.
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
  // If the data set is resident: the order i32 [N], and the position i32 [2] of
  // gather_next_samples() in it, with what the host knows of that (-1: nothing).
  Tensor order_there_, position_;
  int64_t known_position_ = -1;
  Replays<int64_t> gathers_;  // by the number of samples
  // If it is not resident: the fields that are encoded on the device, as the data set has them, and
  // 0, 1, 2, ... as their index; where each field begins in a pinned block, and the block's bytes.
  Dataset staged_;
  Tensor counting_;
  std::vector<size_t> begins_;
  size_t block_bytes_ = 0;
  std::array<Staging, 2> staging_;
  size_t turn_ = 0;
};

}  // namespace accrue::detail
