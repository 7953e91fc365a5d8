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

// Runs the micro-batches of a window as one batch, whose BatchNorms see all its samples. Each
// micro-batch is an Activity that is suspended at every norm, in forward and in backward, until all
// micro-batches have reached that norm. They run one at a time in a fixed order, so that nothing
// depends on threads, and gradients add up in the same order as without this.
//
// This costs memory: the activations that backward needs are alive for all micro-batches, and so
// are their samples. While a micro-batch is suspended, they may be kept on the host of a device
// with less memory (core/offload.h). A segment (Recompute) keeps only its inputs, also while it
// waits in backward: it is rehearsed up to its last norm and dropped, then up to the norm before,
// and so on. So a segment with n norms costs n more forwards, and n times a part of its backward.
//
// Several ranks exchange the contributions of their micro-batches, once for each norm in forward
// and once in backward, so that the window covers all ranks (SyncBN).
class InterleavedWalk : public WindowWalk, public JoinedBatch, private SegmentRehearsal {
 public:
  // Null ranks: only this process. On a meta device nothing is exchanged. `by` is keep or offload.
  explicit InterleavedWalk(Ranks* ranks = nullptr, BatchNormBy by = BatchNormBy::keep)
      : joined_(ranks), by_(by) {}

  // Runs a copy of the next micro-batch up to the first norm; a micro-batch that is alone in its
  // window, to its end. Throws what work() throws, and so does finish(): then abandon the window
  // and destroy this object.
  void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) override;
  // Runs all micro-batches to their ends. Throws Error unless they meet at the same norms. Call it
  // on all ranks, also on those without a micro-batch.
  void finish() override;
  std::string why_alone() const override;

  // Throws Error for a norm in a segment that runs several times in one forward.
  Run join_moments(const void* norm, const Own& own, const OfAll& of_all) override;
  Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) override;

 private:
  struct OfNorm {
    Tensor moments, dx_terms;  // dx_terms: from a rehearsal
    int64_t times = 0;         // that the norm has run
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
  std::vector<const void*> of_segment_;  // the norms of the segment that was just recomputed
  std::optional<Rehearsed> rehearsed_;   // by the micro-batch that is running
  bool was_in_vain_ = false;

  std::vector<Tensor> own_;  // of the micro-batches that have reached the next meeting
  Tensor of_all_;            // of the last meeting
  size_t running_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;  // destroyed first
};

}  // namespace accrue
