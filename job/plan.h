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

// The plan of a training: the largest micro-batch that fits a memory budget, the alternatives that
// fit, and the cost of each.
struct PlannedTraining {
  Request request;  // with the batches of `yours`, for the planned ranks
  Device device;
  std::string whose_memory{};          // in words, if the request has no limit
  Plan plan;                           // at least one of its alternatives fits
  std::optional<Alternative> yours{};  // the requested batches, if any
  MemoryShortage deciding;             // where the recommended alternative reaches its peak
  std::shared_ptr<Ranks> ranks{};
};

// Plans for the request's memory limit, or for all the memory of the device. Throws Error if
// nothing fits, with the missing memory and the nearest settings that would fit.
PlannedTraining plan_training(Request request, const RanksToPlan& ranks, const Notices& notices);

// The options that turn a request into this alternative: "--micro-batch 12 --effective-batch 64",
// and the strategy and recompute if they differ from the request's.
std::string flags_for(const Alternative& alternative, const Request& request);

// The command line of a training by this alternative, within the memory that was planned for.
std::string command_to_train(const Alternative& alternative, Request request);

// Says where the peak is reached and which memory is in use there, in lines of 80 columns.
std::string describe_peak(const MemoryShortage& deciding);

}  // namespace accrue::detail
