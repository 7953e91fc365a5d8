#pragma once

#include "apps/bench/memory_runs.h"

namespace accrue::app {

// Throws Error, with what to install, if the program was built without Chart.js.
void require_chart_library();

// One window of the rows' effective batch at once and one in the smallest micro-batches:
// [{"label", and what window_timeline() gives}].
nlohmann::ordered_json timelines(const MemoryRows& rows, const MemoryRuns& runs);

// The pages: page.html with its style, scripts, Chart.js and data in it. They load nothing.

// Of `bench memory --report`. `result` is what --json writes, and "timelines", one entry for each
// width and effective batch in the order of the rows.
std::string memory_page(nlohmann::ordered_json result);
// Of `report`. `runs` is a list of what read_run() gives (report/runs.h).
std::string runs_page(nlohmann::ordered_json runs);

}  // namespace accrue::app
