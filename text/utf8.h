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

// GPT-2's alphabet, in which vocabularies are written: a visible character for each byte, in UTF-8.
// Bytes that are printable in Latin-1 stand for themselves, the others in turn for U+0100, U+0101,
// ...: a blank is U+0120.
std::string spelling_of(std::string_view bytes);
// None if a character is not of the alphabet.
std::optional<std::string> bytes_spelled(std::string_view spelling);

// Text in Unicode's normalization form C (UAX #15): characters and their marks composed where there
// is a character for both. Bytes that are not UTF-8 stay, and are the end of what is before them.
std::string composed(std::string_view text);

// The part before the last ASCII character, with which nothing before it is composed.
std::string_view before_last_ascii(std::string_view text);
// How many first bytes of a text are composed to so many of `all`, which is composed(text), the
// others to the others; nothing if the place is within what is composed.
std::optional<size_t> bytes_composed_to(std::string_view text, std::string_view all, size_t bytes);

}  // namespace accrue
