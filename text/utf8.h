#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
// Counts the bytes that are not, of a text in pieces.
class NotUtf8 {
 public:
  void add(std::string_view piece);
  // With the text's last bytes, which may be half a character.
  int64_t count() const;
  // Where the first of them is, if there is one.
  int64_t first() const;

 private:
  std::string rest_;
  int64_t count_ = 0, at_ = 0;  // of what is before the rest
  std::optional<int64_t> first_;
};
void append_utf8(std::string& text, uint32_t code);
// Unicode's White_Space.
bool is_white_space(uint32_t code);
// What \w is in Unicode's regular expressions (UTS #18): letters, marks, decimal digits and signs
// that connect these.
bool is_of_word(uint32_t code);

}  // namespace accrue
