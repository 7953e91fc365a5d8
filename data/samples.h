#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "kernels/gather_samples.h"

namespace accrue {

enum class Shuffle { off, on };

// The samples of an epoch in the order they are used: a function of (N, seed, epoch) alone, so that
// no split into micro-batches and no resumption changes it. N = order.size().
void epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle);

// The inputs of a model for some samples, and the answers that it should give: labels or masks.
struct Samples {
  Tensor images;  // floating [n, C, H, W]: (pixel / 255 - 0.5) / 0.5
  Tensor labels;  // i32 [n], or undefined
  Tensor masks;   // floating [n, 1, H, W], 0 or 1, or undefined

  int64_t size() const { return images.size(0); }
  Samples slice(int64_t begin, int64_t end) const;
  SampleViews views() const { return {view_of(images), view_of(labels), view_of(masks)}; }
};

struct MicroBatch : Samples {
  Tensor samples;           // i32 [n]: indices into the data set
  int64_t window_size = 0;  // samples in the window that this is a part of
  bool ends_window = false;
};

// Uninitialised places for n samples of the data set (Category::data).
Samples empty_samples(const Dataset& dataset, int64_t n, DType dtype, Device device);

// Sample k of out = sample samples[k] of the data set, into tensors that exist. Throws Error when a
// sample or its label is out of range.
void gather(Samples& out, const Dataset& dataset, std::span<const int32_t> samples);
// Samples [begin, end) of the data set in its own order, in new tensors (Category::data).
Samples gather(const Dataset& dataset, int64_t begin, int64_t end, DType dtype = DType::f32);

}  // namespace accrue
