#pragma once

#include <functional>
#include <vector>

#include "accumulate/ranks.h"
#include "accumulate/weighted_loss.h"
#include "core/inside.h"
#include "train/window_walk.h"

namespace accrue {

// A loss that sees all samples of a window at once, exact for every split (GradCache: Gao et al.
// 2021, arXiv 2101.06983). A network walks through the window twice:
//   1. it answers each micro-batch without a graph. The answers z of all N samples stay, and at
//      the end L(z) and dL/dz are computed once;
//   2. it answers each micro-batch again, with its graph: loss() is L there, and its backward
//      begins with N/n times the rows of dL/dz that are those of the n samples. A window weights a
//      micro-batch by n/N, so the sum of all is the gradient of L.
// It costs one more forward, and N answers with their gradients in memory. What is random in a
// forward must depend on the pass and the samples alone, as dropout and augmentation do.
// Several ranks send each other their answers once, after the first walk. Each then has all N,
// computes L, and takes the rows of its own samples, so that the sum over the ranks is the gradient
// of L, too.
class WindowLoss {
 public:
  using Answer = std::function<Tensor(const Samples&, const Pass&)>;
  // A scalar of answers [N, ...], their mean over the samples.
  using OfAnswers = std::function<Tensor(const Tensor& answers)>;

  // No ranks: this process alone. On a meta device they exchange nothing.
  WindowLoss(Answer answer, OfAnswers loss, Ranks* ranks = nullptr)
      : answer_(std::move(answer)), loss_(std::move(loss)), ranks_(ranks) {}

  // For the micro-batches in the order of the first walk, as often as the window is walked. Throws
  // Error for another number of samples.
  Tensor loss(const Samples& micro_batch, const Pass& pass);
  // Makes the walk of a window whose loss this is. Each of the two goes through the window as
  // `each` says. This must outlive it.
  std::unique_ptr<WindowWalk> walk(MakeWalk each = nullptr);

 private:
  class Twice;
  void begin();
  void see(const MicroBatch& micro_batch, const Pass& pass);
  // Only answers.
  void rehearse(const Samples& micro_batch, const Pass& pass) const;
  // On all ranks, also on those that have seen nothing.
  void end();

  const Answer answer_;
  const OfAnswers loss_;
  Ranks* const ranks_;
  std::vector<Tensor> answers_;  // of the first walk
  int64_t window_size_ = 0;
  Tensor value_, gradient_;      // L and dL/dz
  int64_t begin_ = 0, end_ = 0;  // this rank's samples
  int64_t next_ = 0;             // the first that loss() has not come to in this walk
};

}  // namespace accrue
