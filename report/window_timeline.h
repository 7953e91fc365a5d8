#pragma once

#include <nlohmann/json_fwd.hpp>

namespace accrue {

// The last whole window of a trace (docs/memory.md, "Timeline"), as the report draws it:
//   {"duration_ms", "peak_bytes", "ms": [..], "bytes": {category: [..]},
//    "phases": [{"name", "micro_batch", "start_ms", "duration_ms", "bytes": {category: highest}}]}
// bytes[c][i] holds from ms[i] to ms[i + 1]; times are from the window's start. At most about 2 *
// `points` are kept: the highest sum and the last one of each stretch of time.
// A phase's bytes are those at the moment its sum is highest.
// Throws Error if the trace holds no whole window.
nlohmann::ordered_json window_timeline(const nlohmann::json& trace, size_t points = 600);

}  // namespace accrue
