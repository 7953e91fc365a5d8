#pragma once

#include <cstdint>
#include <vector>

#include "accumulate/ranks.h"
#include "core/tensor.h"

namespace accrue {

// Collects what the micro-batches of a window, on all ranks, contribute at each meeting of a
// JoinedBatch. With several ranks, each call must be made on all of them.
class GatheredStatistics {
 public:
  // Null ranks: only this process. On a meta device nothing is exchanged.
  explicit GatheredStatistics(Ranks* ranks)
      : ranks_(ranks && ranks->count() > 1 ? ranks : nullptr) {}

  bool is_one_process() const { return !ranks_; }
  // Takes the contributions of this rank's micro-batches, one or more, and returns those on all
  // ranks as one tensor [parts, ...], in order of rank. Rows beyond a rank's micro-batches are 0
  // and count nothing.
  Tensor of_all(const std::vector<Tensor>& own);
  // For a rank without micro-batches: contributes nothing to each meeting until all other ranks are
  // done.
  void follow_others();
  // The last call on a rank that has micro-batches.
  void done();

 private:
  void count_parts(int64_t own);

  Ranks* const ranks_;
  int64_t most_ = 0;       // the largest number of micro-batches of a rank, once counted
  bool has_idle_ = false;  // some rank has none; the first rank tells it the size of each exchange
};

}  // namespace accrue
