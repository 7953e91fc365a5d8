#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// GPT-2's alphabet, in which vocabularies are written: a visible character for each byte, in UTF-8.
// Bytes that are printable in Latin-1 stand for themselves, the others in turn for U+0100, U+0101,
// ...: a blank is U+0120.
std::string spelling_of(std::string_view bytes);
// None if a character is not of the alphabet.
std::optional<std::string> bytes_spelled(std::string_view spelling);

}  // namespace accrue
