#pragma once

#include <string>
#include <vector>

namespace accrue {

// Throws Error, with what to install, if this library was built without Chart.js.
void require_chart_library();

// A web page that compares the runs whose logs are in these directories (train/run_log.h): results,
// settings, curves, memory, scores. It loads no other file. Throws Error for a directory without a
// log, for an invalid line other than the last, and without Chart.js.
std::string report_on(const std::vector<std::string>& directories);

}  // namespace accrue
