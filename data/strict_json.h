#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue {

// Parses JSON that may be damaged or hostile, and checks it while parsing, before it has become
// large objects. Throws Error, which calls the text `what`, for text that is not JSON, for a name
// that stands twice in an object, for more than `max_depth` levels and for an array of more than
// `max_elements`.
nlohmann::json parse_strict_json(const std::string& text, int max_depth, const std::string& what,
                                 int64_t max_elements = 64);

// Parses what another run of the program wrote, such as a line of a log; discarded if it is not
// JSON. A NUL, which the parser would take for the end, is none.
nlohmann::ordered_json parse_own_json(const std::string& text);

}  // namespace accrue
