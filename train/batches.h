#pragma once

#include <cstdint>
#include <string>

#include "core/ceil_div.h"

namespace accrue {

// How the samples of one optimizer step are split into micro-batches of `micro`. The last
// micro-batch of a window is smaller if `effective` is not a multiple of `micro`.
struct Batches {
  int64_t micro = 16, effective = 64;
  // If above 0, at most this many tokens of each row are computed at a time within a micro-batch,
  // where the objective can do that (Objective::divisible_length()); 0: all.
  int64_t piece = 0;
  int64_t accumulation_steps() const { return detail::ceil_div(effective, micro); }
  // "64 (16 x 4)", or with a remainder "70 (16 x 4 + 6)"; "4 (1 x 4, in pieces of 512)"
  std::string describe() const;
};

// The samples over which BatchNorm computes its statistics in training.
enum class BatchNormOver { micro_batch, window };

// How BatchNorms over the window see all of it. keep: the data that backward needs of each
// micro-batch stays in place until all micro-batches have reached a norm. offload: it is kept on
// the host meanwhile (train/interleaved_walk.h). walk: nothing is kept, and the window is walked
// several times (train/repeated_walk.h).
enum class BatchNormBy { keep, offload, walk };

namespace detail {

constexpr bool keeps_window(BatchNormOver over, BatchNormBy by) {
  return over == BatchNormOver::window && by != BatchNormBy::walk;
}
// The number of additional passes that two norms need.
constexpr int64_t few_window_passes = 4;

}  // namespace detail

}  // namespace accrue
