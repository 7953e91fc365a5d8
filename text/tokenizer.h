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

// Whether a part is the beginning of its text. Some tokenizers put a space before that, and before
// nothing else.
enum class TextPlace { begins, goes_on };

// Where control tokens, such as <|im_start|>, are not made of their spelling, which is letters as
// others are: those that begin in [begin, end) of a text. Ascending, and apart.
struct ByteRange {
  size_t begin, end;
};
using Letters = std::span<const ByteRange>;
// What their spelling becomes in somebody's texts.
enum class ControlInTexts { tokens, letters };
bool is_within(Letters letters, size_t at);

}  // namespace detail

// Text as numbers in [0, size()), its tokens, and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t size() const = 0;
  // The token that ends a document; encode() returns it only for its own spelling, if it has one.
  virtual int32_t end_of_text() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text,
                                      detail::TextPlace place = detail::TextPlace::begins,
                                      detail::Letters letters = {}) const = 0;
  // The tokens of the first bytes of a text, and how many bytes: as many as have these tokens
  // whatever comes after `text`, so that those of the rest, as a part that goes on, follow them;
  // none where it takes more text to know.
  struct Beginning {
    std::vector<int32_t> tokens{};
    size_t bytes = 0;
  };
  virtual Beginning encode_beginning(std::string_view text, detail::TextPlace place,
                                     detail::Letters letters = {}) const = 0;
  // The bytes of tokens, with which a text begins; one alone may be a part of a character. Those of
  // more tokens begin with those of fewer. Throws Error for a number out of range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  // Tokens that mean something beyond their letters, such as <|endoftext|>, by their spelling.
  virtual std::map<std::string, int32_t> control_tokens() const { return {}; }
  // What its file puts before and after each text by itself, such as <s>; encode() does not.
  virtual std::vector<int32_t> before_text() const { return {}; }
  virtual std::vector<int32_t> after_text() const { return {}; }
};

namespace detail {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// The tokens of a text that is to be gone on with: before_text() and its own.
std::vector<int32_t> encode_with_beginning(const Tokenizer& tokenizer, std::string_view text);

}  // namespace detail

// A token for each of the 256 values of a byte, and one for the end of a text, which has no bytes.
detail::TokenizerPtr bytes_tokenizer();

}  // namespace accrue
