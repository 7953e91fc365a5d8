#pragma once

#include <string>
#include <vector>

#include "train/memory_prediction.h"

namespace accrue {

namespace detail {

// One way to run the windows of a training.
struct Alternative {
  Batches batches;
  Strategy strategy;
  Recompute recompute;
  BatchNormBy batch_norm_by;
  Usage peak;            // of the whole run, predicted
  size_t on_host;        // page-locked memory that it needs there (BatchNormBy::offload)
  double relative_cost;  // estimated (train/relative_cost.h); 1: one whole batch, none recomputed
  bool fits;

  int64_t remainder() const { return batches.effective % batches.micro; }
  // True if the windows of both are the same.
  bool is_as(const Alternative& other) const;
};

// `options` with the windows of an alternative.
TrainingOptions in_this_way(TrainingOptions options, const Alternative& a);

// The choices among which to search, besides the micro-batch.
struct SearchSpace {
  std::vector<Strategy> strategies;
  std::vector<Recompute> recomputes;
  std::vector<BatchNormBy> batch_norm_by;
};
SearchSpace only_choice(const TrainingOptions& options);

}  // namespace detail

// All strategies, and all ways to recompute and to keep a window, that suit the options.
detail::SearchSpace all_choices(const TrainingOptions& options, Device device);

// The result of planning. It has at least one alternative; if all are refused there is no plan.
struct Plan {
  size_t memory;
  // For each strategy and recompute, the largest micro-batch that fits; if not even one sample does
  // and it can be computed in pieces, the largest half, quarter, ... of it that fits; or if none
  // does, what needs the least memory. Also the whole batch at once, by the reference strategy and
  // without recomputing. All that fit come first, cheapest first, by hundredths of the cost; of
  // equals first those whose step is that of one big batch.
  std::vector<detail::Alternative> alternatives;
  // For each strategy and recompute, the cut that needs the least memory.
  std::vector<detail::Alternative> least_memory;
  // Strategies that cannot be combined with the other options, and why: "strategy moments: ...".
  std::vector<std::string> refused;
  // Why BatchNorms over the window take more passes than the options allow; empty if they do not.
  std::string too_many_walks{};

  // The cheapest alternative that fits, of equals the one with the largest micro-batch; null if
  // none fits. A strategy whose step differs from that of one big batch is recommended only if
  // nothing else may be chosen.
  const detail::Alternative* recommended() const;
  // The alternative that needs the least memory; of equals the cheapest.
  const detail::Alternative& smallest() const;

 private:
  // The alternatives that may be recommended.
  static std::vector<const detail::Alternative*> candidates(
      const std::vector<detail::Alternative>& all);
};

// Plans the windows of options.batches.effective samples in `memory` bytes of `device` by running
// them on its meta device, beside the data that lies there (plan_data()). Every answer comes from
// such a run: the micro-batch fits, and one with a sample more does not. The device itself is not
// needed. Throws Error for options that contradict themselves or the data.
Plan plan_windows(const TrainingOptions& options, const Datasets& planned, Device device,
                  size_t memory, const detail::SearchSpace& space);

namespace detail {

// The windows as the options have them, whether they fit or not. Throws Error as above.
Alternative as_asked(const TrainingOptions& options, const Datasets& planned, Device device,
                     size_t memory);

}  // namespace detail

}  // namespace accrue
