#pragma once

#include <functional>
#include <map>
#include <vector>

#include "data/samples.h"
#include "kernels/joined_batch.h"
#include "train/gathered_statistics.h"
#include "train/window_walk.h"

namespace accrue {

// Runs the micro-batches of a window as one batch, like InterleavedWalk, but without its memory:
// nothing of a micro-batch is kept while others run. Instead the window is walked once for each sum
// that a BatchNorm needs. In a walk, each micro-batch is rehearsed up to the first norm that lacks
// a sum: in forward from the first norm to the last, then in backward from the last to the first.
// So n norms take 2 n + 1 walks. The last walk is like any other window's.
//
// The bits equal InterleavedWalk's. A module may run a norm several times in a forward, unless the
// forward is recomputed.
class RepeatedWalk : public WindowWalk, public JoinedBatch {
 public:
  // Allows at most `most` walks besides the last.
  RepeatedWalk(Ranks* ranks, int64_t most) : joined_(ranks), most_(most) {}

  // Throws Error if more walks are needed. Call it on all ranks, also on those without a
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
  // Runs a micro-batch, in the window's order, until it lacks a sum. A micro-batch that is alone in
  // its window needs no rehearsal.
  void rehearse(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work);
  // Returns true once all sums are known.
  bool end_walk();
  // Keeps a micro-batch's contribution to this run of a norm. The walk's first micro-batch also
  // decides which run the walk is for.
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
  Run lacking_;       // the run that this walk is for: of dx_terms, if its moments are known
  OfAll of_all_;
  std::vector<Tensor> own_;
};

}  // namespace accrue
