#pragma once

#include <memory>
#include <string>

#include "job/notices.h"
#include "job/request.h"
#include "train/plan.h"

namespace accrue::detail {

// For how many ranks to plan, and whether their GPUs reach each other (Ranks::reaches()).
struct RanksToPlan {
  int64_t count = 1;
  bool reach_gpus = false;
};

// The largest micro-batch of a training that fits a budget of memory, what else would fit, and what
// each costs.
struct PlannedTraining {
  Request
      request;  // with what `yours` decides of its batches, for the ranks that it is planned for
  Device device;
  std::string whose_memory{};          // in words, where nobody has said how much there is
  Plan plan;                           // at least one alternative of which fits
  std::optional<Alternative> yours{};  // the batches that were asked for, if any were
  MemoryShortage deciding;             // where the recommended one reaches its peak
  std::shared_ptr<Ranks> ranks{};
};

// Plans for the request's memory limit, or for all that there is. Throws Error if nothing fits:
// what is missing, and the nearest that would fit.
PlannedTraining plan_training(Request request, const RanksToPlan& ranks, const Notices& notices);

// The settings to add to a request for it, as options: "--micro-batch 12 --effective-batch 64", and
// strategy and recompute where they are not those of the request.
std::string flags_for(const Alternative& alternative, const Request& request);

// The program's command for a training in this way, within the memory that was planned for.
std::string command_to_train(const Alternative& alternative, Request request);

// Where a peak is reached, and what is alive there, in lines of 80 columns.
std::string describe_peak(const MemoryShortage& deciding);

}  // namespace accrue::detail
