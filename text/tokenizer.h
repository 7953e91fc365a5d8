#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

namespace detail {

// Whether a part is the beginning of its text. Some tokenizers put a space before that part, but
// not before later parts.
enum class TextPlace { begins, goes_on };

// Byte ranges of a text, ascending and disjoint. A control token, such as <|im_start|>, whose
// spelling begins in one of the ranges is not recognized: its spelling is encoded as ordinary
// letters.
struct ByteRange {
  size_t begin, end;
};
using Letters = std::span<const ByteRange>;
// The treatment of spellings of control tokens in the user's texts.
enum class ControlInTexts { tokens, letters };
bool is_within(Letters letters, size_t at);

}  // namespace detail

// Converts text to tokens, which are numbers in [0, size()), and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t size() const = 0;
  // The token that ends a document. encode() returns it only where a text contains its spelling, if
  // it has one.
  virtual int32_t end_of_text() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text,
                                      detail::TextPlace place = detail::TextPlace::begins,
                                      detail::Letters letters = {}) const = 0;
  // The tokens of the beginning of a text, and how many bytes it has. These tokens are the same
  // whatever comes after `text`: encoding the rest as a part that goes on gives the tokens that
  // follow. Empty if more text is needed to decide.
  struct Beginning {
    std::vector<int32_t> tokens{};
    size_t bytes = 0;
  };
  virtual Beginning encode_beginning(std::string_view text, detail::TextPlace place,
                                     detail::Letters letters = {}) const = 0;
  // The bytes of the tokens at the beginning of a text. A single token may be only part of a
  // character. Decoding more tokens appends bytes and changes none. Throws Error for a number out
  // of range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  // The numbers of the tokens that mean more than their letters, such as <|endoftext|>, by
  // spelling.
  virtual std::map<std::string, int32_t> control_tokens() const { return {}; }
  // The tokens that the tokenizer's file puts before and after each text, such as <s>. encode()
  // does not add them.
  virtual std::vector<int32_t> before_text() const { return {}; }
  virtual std::vector<int32_t> after_text() const { return {}; }
};

namespace detail {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// The tokens of a text to be continued: before_text() and the text's own tokens.
std::vector<int32_t> encode_with_beginning(const Tokenizer& tokenizer, std::string_view text);

}  // namespace detail

// A tokenizer with a token for each of the 256 byte values, and an end-of-text token without bytes.
detail::TokenizerPtr bytes_tokenizer();

}  // namespace accrue
