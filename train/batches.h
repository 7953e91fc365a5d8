#pragma once

#include <cstdint>
#include <string>

#include "core/ceil_div.h"

namespace accrue {

// How the samples of one optimizer step are cut into micro-batches of `micro`. The last one of a
// window is smaller if `effective` is not a multiple of `micro`.
struct Batches {
  int64_t micro = 16, effective = 64;
  // Within a micro-batch at most so many tokens of a row are computed at a time, where the
  // objective can (Objective::divisible_length()); 0: all.
  int64_t piece = 0;
  int64_t accumulation_steps() const { return detail::ceil_div(effective, micro); }
  // "64 (16 x 4)", with the remainder where there is one: "70 (16 x 4 + 6)"; "4 (1 x 4, in pieces
  // of 512)"
  std::string describe() const;
};

// Whose statistics BatchNorm takes in training.
enum class BatchNormOver { micro_batch, window };

// How BatchNorms over the window get to see all of it. keep: what backward needs of each
// micro-batch stays where it is till all have come to a norm. offload: it lies on the host
// meanwhile (train/interleaved_walk.h). walk: nothing is kept, and the window is walked several
// times (train/repeated_walk.h).
enum class BatchNormBy { keep, offload, walk };

namespace detail {

constexpr bool keeps_window(BatchNormOver over, BatchNormBy by) {
  return over == BatchNormOver::window && by != BatchNormBy::walk;
}
// As many passes more as two norms take.
constexpr int64_t few_window_passes = 4;

}  // namespace detail

}  // namespace accrue
