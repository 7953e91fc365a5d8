#pragma once

#include <nlohmann/json_fwd.hpp>

namespace accrue {

// The last whole window of a trace (docs/memory.md, "Timeline"), in the form that the report draws:
//   {"duration_ms", "peak_bytes", "ms": [..], "bytes": {category: [..]},
//    "phases": [{"name", "micro_batch", "start_ms", "duration_ms", "bytes": {category: highest}}]}
// bytes[c][i] holds from ms[i] to ms[i + 1]. Times count from the window's start. At most about 2 *
// `points` are kept: for each stretch of time, the point with the highest sum and the last one. A
// phase's bytes are its bytes at the moment when their sum is highest.
// Throws Error if the trace holds no whole window.
nlohmann::ordered_json window_timeline(const nlohmann::json& trace, size_t points = 600);

}  // namespace accrue
