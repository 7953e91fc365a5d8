#pragma once

#include <string>
#include <string_view>

namespace accrue {

// Text in Unicode's normalization form C (UAX #15): characters and their marks composed where there
// is a character for both. Bytes that are not UTF-8 stay, and are the end of what is before them.
std::string composed(std::string_view text);

}  // namespace accrue
