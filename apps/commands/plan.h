#pragma once

#include "job/request.h"

namespace accrue::app {

// `accrue plan`: the largest micro-batch that fits a budget of memory, what else would fit, and
// what each costs.
struct PlanOptions {
  std::string memory;  // empty: the machine's, or what its GPU has left
  int64_t ranks = 1;
};
Settings settings_of(PlanOptions& asked, Request& options);
// The settings of a training that have to do with its memory, or with how long it takes.
Settings heeded_by_plan(const Settings& training);
// Prints the plan, and returns it as JSON. Throws Error if nothing fits: what is missing, and the
// nearest that would fit.
std::string plan(const Request& options, const PlanOptions& asked);

}  // namespace accrue::app
