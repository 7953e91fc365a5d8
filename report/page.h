#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue {

// The pages: page.html with its style, scripts, Chart.js and data embedded. They load no other
// file.

// The page of `bench memory --report`. `result` has the keys that --json writes, "machine", and
// "timelines". The latter has an entry for each width and effective batch, in the order of the
// rows: a list of two windows, one at once and one in micro-batches. Each is {"label", and the keys
// of window_timeline()}.
std::string memory_page(nlohmann::ordered_json result);
// The page of report_on(). `runs` is a list of results of read_run() (report/runs.h).
std::string runs_page(nlohmann::ordered_json runs);

}  // namespace accrue
