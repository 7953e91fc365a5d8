#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/activity.h"
#include "core/autograd.h"
#include "core/offload.h"
#include "data/samples.h"
#include "kernels/joined_batch.h"
#include "layers/module.h"
#include "train/gathered_statistics.h"
#include "train/window_walk.h"

namespace accrue {

// The micro-batches of a window as one batch, whose BatchNorms see all its samples. Each
// micro-batch is an Activity that is suspended at every norm, in forward and in backward, till all
// have come there. They run one at a time and in order, so that nothing depends on threads, and
// gradients add up in the order in which they do without this.
//
// It costs memory: what a backward keeps is alive for all micro-batches, and so are their samples.
// While they are suspended, it may lie on the host of a device that has less (core/offload.h). A
// segment (Recompute) keeps its inputs alone, also while it waits in backward: it is rehearsed up
// to its last norm and dropped, then up to the one before, and so on. A segment of n norms so costs
// n more forwards, and n times a part of its backward.
//
// Several ranks tell each other what their micro-batches have brought, once for each norm in
// forward and once in backward, so that the window is that of all (SyncBN).
class InterleavedWalk : public WindowWalk, public JoinedBatch, private SegmentRehearsal {
 public:
  // No ranks: this process alone. On a meta device they exchange nothing. The window is kept or
  // offloaded.
  explicit InterleavedWalk(Ranks* ranks = nullptr, BatchNormBy by = BatchNormBy::keep)
      : joined_(ranks), by_(by) {}

  // Runs the next micro-batch, of which it makes a copy, up to the first norm; one that is alone in
  // its window, to its end. Throws what work() throws, as does finish(): then the window is to be
  // abandoned, and this destroyed.
  void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) override;
  // Runs all to their ends. Throws Error unless they meet at the same norms. Call it on all ranks,
  // also on those that have no micro-batch.
  void finish() override;
  std::string why_alone() const override;

  // Throws Error for a norm that is in a segment and runs several times in a forward.
  Run join_moments(const void* norm, const Own& own, const OfAll& of_all) override;
  Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) override;

 private:
  struct OfNorm {
    Tensor moments, dx_terms;  // dx_terms: from a rehearsal
    int64_t times = 0;         // that it has run
  };
  struct Rehearsed {
    const void* norm;
    Tensor own;
    OfAll of_all;
  };

  struct Part {
    explicit Part(std::function<void()> body) : activity(std::move(body)) {}
    Offload offload;
    Activity activity;
  };

  void begin() override { of_segment_.clear(); }
  bool is_one() override;
  void wait() override;
  void resume(size_t part);
  Tensor meet(const Tensor& own, const OfAll& of_all);

  GatheredStatistics joined_;
  const BatchNormBy by_;
  std::map<const void*, OfNorm> norms_;
  std::vector<const void*> of_segment_;  // the norms in the one that has just run again
  std::optional<Rehearsed> rehearsed_;   // by the part that is running
  bool was_in_vain_ = false;

  std::vector<Tensor> own_;  // of the parts that have come to the next meeting
  Tensor of_all_;            // of the last one
  size_t running_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;  // destroyed first
};

}  // namespace accrue
