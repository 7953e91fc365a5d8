#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace accrue {

// A character at an end of a text: its number, and how many bytes it takes. No bytes: the text is
// empty, or not valid UTF-8 there.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character first_character(std::string_view text);
Character last_character(std::string_view text);
// The number of bytes before the first that is not valid UTF-8: no surrogates, none that is longer
// than it need be, nothing above U+10FFFF.
size_t valid_utf8_bytes(std::string_view text);
void append_utf8(std::string& text, uint32_t code);
// Unicode's White_Space.
bool is_white_space(uint32_t code);

}  // namespace accrue
