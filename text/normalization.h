#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// Text in Unicode's normalization form C (UAX #15): characters and their marks composed where there
// is a character for both. Bytes that are not UTF-8 stay, and are the end of what is before them.
std::string composed(std::string_view text);

// The part before the last ASCII character, with which nothing before it is composed.
std::string_view before_last_ascii(std::string_view text);
// How many first bytes of a text are composed to so many of `all`, which is composed(text), the
// others to the others; nothing if the place is within what is composed.
std::optional<size_t> bytes_composed_to(std::string_view text, std::string_view all, size_t bytes);

}  // namespace accrue
