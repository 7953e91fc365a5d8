#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue {

// Parses JSON that may be damaged or hostile, and checks it while parsing, before large objects
// exist. Throws Error if the text is not JSON, if an object has a name twice, if there are more
// than `max_depth` levels, or if an array has more than `max_elements` elements. The error calls
// the text `what`.
nlohmann::json parse_strict_json(const std::string& text, int max_depth, const std::string& what,
                                 int64_t max_elements = 64);

// Parses JSON that another run of the program wrote, such as a line of a log. Returns a discarded
// value if the text is not JSON, or has a NUL, which the parser would take for the end.
nlohmann::ordered_json parse_own_json(const std::string& text);

}  // namespace accrue
