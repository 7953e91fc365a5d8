#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue {

// Parses JSON that may be damaged or hostile: checked while it is parsed, before it has become
// large objects. Throws Error, calling the text `what`, for what is not JSON, for a name that
// stands twice in an object, for more than `max_depth` levels and for an array of more than
// `max_elements`.
nlohmann::json parse_strict_json(const std::string& text, int max_depth, const std::string& what,
                                 int64_t max_elements = 64);

}  // namespace accrue
