#include "train/window_walk.h"

#include "train/interleaved_walk.h"
#include "train/repeated_walk.h"

namespace accrue {

MakeWalk detail::batch_norm_walk(BatchNormOver over, BatchNormBy by, int64_t passes, Ranks* ranks) {
  if (over == BatchNormOver::micro_batch) return nullptr;
  if (by == BatchNormBy::walk) return [=] { return std::make_unique<RepeatedWalk>(ranks, passes); };
  return [=] { return std::make_unique<InterleavedWalk>(ranks, by); };
}

}  // namespace accrue
