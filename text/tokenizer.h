#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// Text as numbers in [0, size()), its tokens, and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t size() const = 0;
  // The token that ends a document; encode() returns it only for its own spelling, if it has one.
  virtual int32_t end_of_text() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The bytes of tokens, with which a text begins; one alone may be a part of a character. Those of
  // more tokens begin with those of fewer. Throws Error for a number out of range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// A token for each of the 256 values of a byte, and one for the end of a text, which has no bytes.
TokenizerPtr bytes_tokenizer();

}  // namespace accrue
