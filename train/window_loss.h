#pragma once

#include <functional>
#include <vector>

#include "accumulate/ranks.h"
#include "accumulate/weighted_loss.h"
#include "core/inside.h"
#include "train/window_walk.h"

namespace accrue {

// A loss over all samples of a window at once, exact for every split (GradCache: Gao et al. 2021,
// arXiv 2101.06983). A network walks through the window twice:
//   1. It answers each micro-batch without a graph. The answers z of all N samples are kept, and at
//      the end L(z) and dL/dz are computed once.
//   2. It answers each micro-batch again, with its graph. There loss() returns L, and its backward
//      starts from N/n times the rows of dL/dz of the n samples. A window weights a micro-batch by
//      n/N, so the sum over micro-batches is the gradient of L.
// This costs one more forward, and the memory of N answers and their gradients. Randomness in a
// forward may depend only on the pass and the samples, as it does in dropout and augmentation.
//
// Several ranks exchange their answers once, after the first walk. Each rank then has all N
// answers, computes L, and uses the rows of its own samples, so that the sum over the ranks is also
// the gradient of L.
class WindowLoss {
 public:
  using Answer = std::function<Tensor(const Samples&, const Pass&)>;
  // A scalar function of answers [N, ...]: a mean over the samples.
  using OfAnswers = std::function<Tensor(const Tensor& answers)>;

  // Null ranks: only this process. On a meta device nothing is exchanged.
  WindowLoss(Answer answer, OfAnswers loss, Ranks* ranks = nullptr)
      : answer_(std::move(answer)), loss_(std::move(loss)), ranks_(ranks) {}

  // Call this for the micro-batches in the order of the first walk, each time that the window is
  // walked. Throws Error if the number of samples differs.
  Tensor loss(const Samples& micro_batch, const Pass& pass);
  // Makes the walk of a window with this loss. Each of the two walks goes through the window like
  // `each`. This object must outlive the result.
  std::unique_ptr<WindowWalk> walk(MakeWalk each = nullptr);

 private:
  class Twice;
  void begin();
  void see(const MicroBatch& micro_batch, const Pass& pass);
  // Only computes and keeps answers.
  void rehearse(const Samples& micro_batch, const Pass& pass) const;
  // Call this on all ranks, also on those without samples.
  void end();

  const Answer answer_;
  const OfAnswers loss_;
  Ranks* const ranks_;
  std::vector<Tensor> answers_;  // of the first walk
  int64_t window_size_ = 0;
  Tensor value_, gradient_;      // L and dL/dz
  int64_t begin_ = 0, end_ = 0;  // this rank's samples
  int64_t next_ = 0;             // the first sample that loss() has not reached in this walk
};

}  // namespace accrue
