#pragma once

#include <functional>
#include <map>
#include <vector>

#include "data/samples.h"
#include "kernels/joined_batch.h"
#include "train/gathered_statistics.h"
#include "train/window_walk.h"

namespace accrue {

// The micro-batches of a window as one batch, as InterleavedWalk has them, for no memory: nothing
// of a micro-batch is kept while others run. Instead the window is walked once for each sum that a
// BatchNorm needs of it, and each micro-batch is rehearsed up to the first norm that lacks one: in
// forward from the first norm to the last, then in backward from the last to the first. n norms so
// take 2 n + 1 walks, of which the last is a window like any other.
//
// The bits are those of an InterleavedWalk. A module may run a norm several times in a forward,
// unless that is computed again.
class RepeatedWalk : public WindowWalk, public JoinedBatch {
 public:
  // For at most so many walks beside the last.
  RepeatedWalk(Ranks* ranks, int64_t most) : joined_(ranks), most_(most) {}

  // Throws Error if that takes too many walks. Call it on all ranks, also on those that have no
  // micro-batch.
  void look_ahead(const WindowAhead& window) override;
  void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) override;

  Run join_moments(const void* norm, const Own& own, const OfAll& of_all) override;
  Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) override;

 private:
  struct Unknown {};
  struct Known {
    Run run;
    Tensor dx_terms{};
  };
  // Runs a micro-batch, in the order of the window, as far as it comes. One that is alone in its
  // window needs no rehearsal.
  void rehearse(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work);
  // Returns true when all is known.
  bool end_walk();
  // Keeps what a part brings of a run; the first part of a walk also says what it lacks.
  void bring(const Run& run, Tensor own, const OfAll& of_all);
  Tensor of_this_part(const Own& own, const OfAll& of_all);
  Known* find(const Run& run);

  GatheredStatistics joined_;
  const int64_t most_;
  std::vector<Known> known_;
  std::map<const void*, size_t> forwards_;  // of each norm in this micro-batch, so far

  bool is_rehearsing_ = false, is_alone_ = false;
  int64_t walks_ = 0;
  size_t parts_ = 0;  // of this walk
  Run lacking_;       // dx_terms, if its moments are known
  OfAll of_all_;
  std::vector<Tensor> own_;
};

}  // namespace accrue
