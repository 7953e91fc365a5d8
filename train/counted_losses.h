#pragma once

#include <functional>
#include <vector>

#include "accumulate/ranks.h"
#include "accumulate/summed_losses.h"
#include "core/inside.h"
#include "train/window_walk.h"

namespace accrue {

// A sum of losses that are means over different things, exact for every split. With l[i, k] the
// mean of loss k over what it counts in micro-batch i, w[i, k],
//   L = sum_k factor[k] sum_i w[i, k] l[i, k] / W[k]        W[k] = sum_i w[i, k].
// A window divides its gradients once, by its N samples. So it is walked once beforehand, without
// the network, to count W and N, over all ranks. Then loss() returns for a micro-batch of n samples
//   sum_k factor[k] c[i, k] l[i, k]        c[i, k] = N w[i, k] / (n W[k])
// as a mean over samples, with the terms c[i, k] l[i, k] beside it. A loss that counts nothing in
// the window adds 0 to it. The data of a window is read twice.
class CountedLosses {
 public:
  using Losses = std::function<std::vector<NamedLoss>(const Samples&, const Pass&)>;
  // For each loss f64 [], or undefined for one that counts samples.
  using Weights = std::function<std::vector<Tensor>(const Samples&)>;

  // Null ranks: only this process. On a meta device nothing is exchanged.
  CountedLosses(Losses losses, Weights weights, Ranks* ranks = nullptr)
      : losses_(std::move(losses)), weights_(std::move(weights)), ranks_(ranks) {}

  // Call this for the micro-batches in the order in which they were counted, each time that the
  // window is walked. Throws Error if the number of samples differs. Between windows, the
  // micro-batch is a window of its own.
  Loss loss(const Samples& micro_batch, const Pass& pass);
  // Makes the walk of a window with these losses, which goes through it like `each`. This object
  // must outlive the result.
  std::unique_ptr<WindowWalk> walk(MakeWalk each = nullptr);

 private:
  class CountFirst;
  struct Counts {
    int64_t samples;
    std::vector<double> of_loss;
  };
  void count(const WindowAhead& window);
  double share(const Counts& here, size_t loss) const;

  const Losses losses_;
  const Weights weights_;
  Ranks* const ranks_;
  std::vector<Counts> counts_;  // of this rank's micro-batches
  std::vector<double> totals_;  // N, then W, over all ranks
  size_t next_ = 0;             // the micro-batch that loss() gets next
};

}  // namespace accrue
