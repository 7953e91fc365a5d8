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
  size_t on_host;        // page-locked host memory that it needs (BatchNormBy::offload)
  double relative_cost;  // estimated (train/relative_cost.h); 1: one whole batch, not recomputed
  bool fits;

  int64_t remainder() const { return batches.effective % batches.micro; }
  // True if both run windows in the same way.
  bool is_as(const Alternative& other) const;
};

// `options`, changed to run windows like this alternative.
TrainingOptions in_this_way(TrainingOptions options, const Alternative& a);

// The choices to search, besides the micro-batch.
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
  // For each strategy and recompute, the largest micro-batch that fits. If not even one sample fits
  // and it can be computed in pieces, the largest half, quarter, ... of a sample that fits. If none
  // fits, the alternative that needs the least memory. Also the whole batch at once, with the
  // reference strategy and without recomputing. Alternatives that fit come first, in order of cost,
  // which is rounded to hundredths; among equals, those whose step equals one big batch's come
  // first.
  std::vector<detail::Alternative> alternatives;
  // For each strategy and recompute, the split that needs the least memory.
  std::vector<detail::Alternative> least_memory;
  // Strategies that cannot be combined with the other options, with the reason: "strategy moments:
  // ...".
  std::vector<std::string> refused;
  // Why BatchNorms over the window need more passes than the options allow; empty if they do not.
  std::string too_many_walks{};

  // The cheapest alternative that fits; among equals, the one with the largest micro-batch. Null if
  // none fits. A strategy whose step differs from one big batch's is recommended only if there is
  // no other choice.
  const detail::Alternative* recommended() const;
  // The alternative that needs the least memory; among equals, the cheapest.
  const detail::Alternative& smallest() const;

 private:
  // The alternatives that may be recommended.
  static std::vector<const detail::Alternative*> candidates(
      const std::vector<detail::Alternative>& all);
};

// Plans the windows of options.batches.effective samples in `memory` bytes of `device`, beside the
// data that lies there (plan_data()). It runs them on the device's meta device, so the device
// itself is not needed. Every answer was tried: the micro-batch fits, and one with one more sample
// does not. Throws Error for options that contradict each other or the data.
Plan plan_windows(const TrainingOptions& options, const Datasets& planned, Device device,
                  size_t memory, const detail::SearchSpace& space);

namespace detail {

// The windows exactly as the options request them, whether they fit or not. Throws Error like
// plan_windows().
Alternative as_asked(const TrainingOptions& options, const Datasets& planned, Device device,
                     size_t memory);

}  // namespace detail

}  // namespace accrue
