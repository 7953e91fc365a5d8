#pragma once

#include "job/request.h"

namespace accrue::app {

// `accrue plan`: finds the largest micro-batch that fits a memory budget, the alternatives that
// fit, and the cost of each.
struct PlanOptions {
  std::string memory;  // empty: the machine's, or the GPU's free memory
  int64_t ranks = 1;
};
Settings settings_of(PlanOptions& asked, Request& options);
// The settings of a training that change its memory or its duration.
Settings heeded_by_plan(const Settings& training);
// Prints the plan and returns it as JSON. Throws Error if nothing fits, with the missing memory and
// the nearest settings that would fit.
std::string plan(const Request& options, const PlanOptions& asked);

}  // namespace accrue::app
