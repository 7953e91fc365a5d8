#pragma once

#include "apps/plan_search.h"

namespace accrue::app {

// `accrue plan`: the largest micro-batch that fits a budget of memory, what else would fit, and
// what each costs.
struct PlanOptions {
  std::string memory;
  // Chosen by the user, so not to be varied.
  bool strategy_given = false, recompute_given = false;
};
// Declares --memory and --json, and has --micro-batch found instead of given. After the options of
// model, batches and optimizer.
void add_plan_options(CLI::App& command, TrainOptions& options, PlanOptions& asked);
// Throws Error if nothing fits: what is missing, and the nearest that would fit.
void plan(const TrainOptions& options, const PlanOptions& asked);

}  // namespace accrue::app
