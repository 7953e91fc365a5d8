#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue {

// The pages: page.html with its style, scripts, Chart.js and data in it. They load nothing.

// Of `bench memory --report`. `result` is what --json writes, "machine", and "timelines", one entry
// for each width and effective batch in the order of the rows: one window of the effective batch at
// once and one in micro-batches, [{"label", and what window_timeline() gives}].
std::string memory_page(nlohmann::ordered_json result);
// Of report_on(). `runs` is a list of what read_run() gives (report/runs.h).
std::string runs_page(nlohmann::ordered_json runs);

}  // namespace accrue
