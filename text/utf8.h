#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// A character at the beginning or the end of a text: its number and its length in bytes. It has no
// bytes if the text is empty or not valid UTF-8 there.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character first_character(std::string_view text);
Character last_character(std::string_view text);
// The number of bytes before the first invalid one. Invalid are surrogates, characters that are
// longer than necessary, and characters above U+10FFFF.
size_t valid_utf8_bytes(std::string_view text);
// Counts the bytes of a text, given in pieces, that are not valid UTF-8.
class NotUtf8 {
 public:
  void add(std::string_view piece);
  // The count, including the text's last bytes, which may be an incomplete character.
  int64_t count() const;
  // The position of the first invalid byte, or the length of the text.
  int64_t first() const;

 private:
  std::string rest_;
  int64_t count_ = 0, at_ = 0;  // of the bytes before `rest_`
  std::optional<int64_t> first_;
};
void append_utf8(std::string& text, uint32_t code);
// Unicode's White_Space.
bool is_white_space(uint32_t code);
// True for the characters of \w in Unicode's regular expressions (UTS #18): letters, marks, decimal
// digits and connectors.
bool is_of_word(uint32_t code);

// GPT-2's alphabet, in which vocabularies are written: a visible character for each byte, in UTF-8.
// Bytes that are printable in Latin-1 stand for themselves; the others become U+0100, U+0101 and so
// on, in order. The space is U+0120.
std::string spelling_of(std::string_view bytes);
// The inverse; nothing if a character is not in the alphabet.
std::optional<std::string> bytes_spelled(std::string_view spelling);

// Normalizes a text to Unicode's form C (UAX #15): a character and its marks are composed where one
// character stands for both. Bytes that are not UTF-8 stay as they are, and nothing is composed
// across them.
std::string composed(std::string_view text);

// The part before the last ASCII character. Nothing is composed across its end.
std::string_view before_last_ascii(std::string_view text);
// The number of bytes at the beginning of `text` that are composed to the first `bytes` bytes of
// `all`, which is composed(text), while the rest of `text` is composed to the rest of `all`.
// Nothing if that place is within a composed character.
std::optional<size_t> bytes_composed_to(std::string_view text, std::string_view all, size_t bytes);

}  // namespace accrue
