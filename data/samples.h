#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"

namespace accrue {

enum class Shuffle { off, on };

// The samples of an epoch in the order they are used: a function of (N, seed, epoch) alone, so that
// no split into micro-batches and no resumption changes it. N = order.size().
void epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle);

// What a model sees of some samples.
struct Samples {
  Tensor images;  // floating [n, C, H, W]: (pixel / 255 - 0.5) / 0.5
  Tensor labels;  // i32 [n]
};

struct MicroBatch : Samples {
  Tensor samples;           // i32 [n]: indices into the data set
  int64_t window_size = 0;  // samples in the window that this is a part of
  bool ends_window = false;
};

}  // namespace accrue
