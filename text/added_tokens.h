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

// A token that is found in a text before anything else is, such as <|endoftext|>.
struct AddedToken {
  std::string content;
  int32_t token = 0;
  bool takes_space_before = false, takes_space_after = false;
  bool is_single_word = false;  // not beside what continues a word
  bool is_control = false;      // not made of letters (text/tokenizer.h)
};

// Finds them: of those that begin at a place the longest, which ends where the next may begin.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The numbers of those that are control tokens.
  std::vector<int32_t> control() const;

  // Calls use(part, none) for each part of the text without any of them, and use(part, token) for
  // each of them, in turn. Control tokens that begin in `letters` are none.
  static constexpr int32_t none = -1;
  using Use = std::function<void(std::string_view part, int32_t token)>;
  void split(std::string_view text, Letters letters, const Use& use) const;
  // The same for a text after which more may come, as far as that changes nothing: use(part, place)
  // takes a part up to its end, use_some(part, place) as many bytes of the last as it can, of
  // whatever comes after it, and returns their number; tokens are appended to `tokens`. Returns how
  // many bytes there were, which end within such a part or before a token; none if a token is a
  // single word, for what is before the rest would tell whether it is there.
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
  // A tree of what they begin with: the child of a node by a byte, and the token that ends in a
  // node.
  std::unordered_map<uint64_t, uint32_t> children_;
  std::vector<int32_t> ends_;
  std::array<bool, 256> begins_{};
};

}  // namespace accrue
