#pragma once

#include <cstdint>
#include <vector>

#include "accumulate/ranks.h"
#include "core/tensor.h"

namespace accrue {

// Puts together what the micro-batches of a window, on all ranks, bring to each meeting of a
// JoinedBatch. With several ranks every call is one of all of them.
class GatheredStatistics {
 public:
  // No ranks: this process alone. On a meta device they exchange nothing.
  explicit GatheredStatistics(Ranks* ranks)
      : ranks_(ranks && ranks->count() > 1 ? ranks : nullptr) {}

  bool is_one_process() const { return !ranks_; }
  // What this rank's micro-batches bring, one or more, becomes [parts, ...] of all ranks in their
  // order. Rows beyond a rank's micro-batches are 0, and count nothing.
  Tensor of_all(const std::vector<Tensor>& own);
  // A rank without micro-batches brings nothing to each meeting, until all others are done.
  void follow_others();
  // The last call of a rank with micro-batches.
  void done();

 private:
  void count_parts(int64_t own);

  Ranks* const ranks_;
  int64_t most_ = 0;       // micro-batches of a rank, once they are counted
  bool has_idle_ = false;  // a rank without any, which the first tells what to exchange
};

}  // namespace accrue
