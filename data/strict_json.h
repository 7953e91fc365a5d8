#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue {

// Parses JSON that may be damaged or hostile, and checks it while parsing, before large objects
// exist. Throws Error, which calls the text `what`, if it is not JSON, if an object has a name
// twice, if it has more than `max_depth` levels, or if an array has more than `max_elements`
// elements.
nlohmann::json parse_strict_json(const std::string& text, int max_depth, const std::string& what,
                                 int64_t max_elements = 64);

// Parses JSON that another run of the program wrote, such as a line of a log. Returns a discarded
// value if it is not JSON, also if it has a NUL, which the parser would take for the end.
nlohmann::ordered_json parse_own_json(const std::string& text);

}  // namespace accrue
