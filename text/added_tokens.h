#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/inside.h"
#include "text/tokenizer.h"

namespace accrue {

// A token, such as <|endoftext|>, that is found in a text before the rest of it is split into
// words.
struct AddedToken {
  std::string content;
  int32_t token = 0;
  bool takes_space_before = false, takes_space_after = false;
  bool is_single_word = false;  // not found beside a letter that continues a word
  bool is_control = false;      // a control token (text/tokenizer.h)
};

// Finds added tokens in a text. Where several begin at the same place the longest one is taken, and
// the next one may begin where it ends.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The numbers of the control tokens.
  std::vector<int32_t> control() const;

  // Calls use(part, none) for each part of the text between added tokens, and use(part, token) for
  // each added token, in order. A control token that begins in `letters` is not recognized.
  static constexpr int32_t none = -1;
  using Use = std::function<void(std::string_view part, int32_t token)>;
  void split(std::string_view text, Letters letters, const Use& use) const;
  // Does the same for the beginning of a text, as far as no continuation could change the result.
  // Calls use(part, place) for a part that is complete. Calls use_some(part, place) for the last
  // part, which may continue; it consumes as many bytes as it can whatever follows and returns
  // their number. Appends the tokens that are found to `tokens`. Returns the number of bytes
  // consumed, which end within a part or before a token. Returns 0 if any token must be a single
  // word, because then the remaining text could decide whether the token is found.
  using UsePart = std::function<void(std::string_view part, TextPlace place)>;
  using UseSome = std::function<size_t(std::string_view part, TextPlace place)>;
  size_t split_beginning(std::string_view text, TextPlace place, Letters letters,
                         std::vector<int32_t>& tokens, const UsePart& use,
                         const UseSome& use_some) const;

 private:
  struct Found {
    size_t begin, end;
    const AddedToken* token = nullptr;

    explicit operator bool() const { return token != nullptr; }
  };
  Found find(std::string_view text, size_t from) const;

  std::vector<AddedToken> tokens_;
  size_t longest_ = 0;
  bool takes_space_before_ = false, has_single_words_ = false;
  // A prefix tree of the tokens' spellings: the child of a node for each byte, and the token that
  // ends in each node.
  std::unordered_map<uint64_t, uint32_t> children_;
  std::vector<int32_t> ends_;
  std::array<bool, 256> begins_{};
};

}  // namespace accrue
