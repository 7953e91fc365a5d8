#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace accrue {
namespace {

// The buffers of a call of encode().
struct Buffers {
  Matcher matcher;
  WordCache cache;
  std::vector<int32_t> word;
  Merges::Scratch merging;
};

class Bpe : public Tokenizer {
 public:
  explicit Bpe(BpeDescription description)
      : name_(std::move(description.name)),
        tokens_(std::move(description.tokens)),
        bytes_(description.bytes),
        unknown_(description.unknown),
        end_of_text_(description.end_of_text),
        before_text_(std::move(description.before_text)),
        after_text_(std::move(description.after_text)),
        fuses_unknown_(description.fuses_unknown),
        composes_(description.composes),
        merges_(description.merges),
        splitter_(std::move(description.steps), description.blank_before_step),
        added_{AddedTokens(std::move(description.added[0])),
               AddedTokens(std::move(description.added[1]))} {
    for (const size_t pass : {0, 1})
      for (const int32_t token : added_[pass].control()) {
        control_.emplace(tokens_[size_t(token)], token);
        finds_control_again_ |= pass == 1;
      }
    for (const int32_t token : description.whole_words)
      whole_words_.emplace(tokens_[size_t(token)], token);
  }

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::vector<int32_t> before_text() const override { return before_text_; }
  std::vector<int32_t> after_text() const override { return after_text_; }

  int32_t end_of_text() const override {
    check(end_of_text_ != BpeDescription::none,
          "'{}' has no token for the end of a text: neither <|endoftext|> nor an eos_token that a "
          "tokenizer_config.json beside it names",
          name_);
    return end_of_text_;
  }

  std::map<std::string, int32_t> control_tokens() const override { return control_; }

  std::vector<int32_t> encode(std::string_view text, TextPlace place,
                              Letters letters) const override {
    auto buffers = idle_.take();
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 4);
    added_[0].split(text, letters, [&](std::string_view part, int32_t token) {
      if (token != AddedTokens::none) return tokens.push_back(token);
      encode_part(part, part.data() == text.data() ? place : TextPlace::begins,
                  within(letters, text, part), *buffers, tokens);
    });
    idle_.give_back(std::move(buffers));
    return tokens;
  }

  Beginning encode_beginning(std::string_view text, TextPlace place,
                             Letters letters) const override {
    auto buffers = idle_.take();
    Beginning result;
    result.tokens.reserve(text.size() / 4);
    result.bytes = added_[0].split_beginning(
        text, place, letters, result.tokens,
        [&](std::string_view part, TextPlace here) {
          encode_part(part, here, within(letters, text, part), *buffers, result.tokens);
        },
        [&](std::string_view part, TextPlace here) {
          return encode_some(part, here, within(letters, text, part), *buffers, result.tokens);
        });
    if (result.bytes == 0) result.tokens.clear();
    idle_.give_back(std::move(buffers));
    return result;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      check(0 <= token && token < size(), "token {} is outside [0, {})", token, size());
      check(!tokens_[size_t(token)].empty(), "'{}' has no token {}", name_, token);
      text += tokens_[size_t(token)];
    }
    return text;
  }

 private:
  // The same ranges relative to a part of the text, if tokens are searched for in it again.
  std::vector<ByteRange> within(Letters letters, std::string_view text,
                                std::string_view part) const {
    std::vector<ByteRange> inner;
    const auto first = static_cast<size_t>(part.data() - text.data());
    for (const auto [begin, end] : finds_control_again_ ? letters : Letters{})
      if (begin < first + part.size() && end > first)
        inner.push_back({std::max(begin, first) - first, std::min(end - first, part.size())});
    return inner;
  }
  // Moves the ranges to the places that they have in the composed part.
  static void compose(std::vector<ByteRange>& letters, std::string_view part,
                      std::string_view made) {
    if (part == made) return;
    for (auto& [begin, end] : letters) {
      begin = composed(part.substr(0, begin)).size();
      end = composed(part.substr(0, end)).size();
    }
  }

  // Encodes a part between added tokens of the first list.
  void encode_part(std::string_view part, TextPlace place, std::vector<ByteRange> letters,
                   Buffers& buffers, std::vector<int32_t>& tokens) const {
    const std::string made = composes_ ? composed(part) : "";
    if (composes_) compose(letters, part, made);
    if (composes_) part = made;
    added_[1].split(part, letters, [&](std::string_view rest, int32_t token) {
      if (token != AddedTokens::none) return tokens.push_back(token);
      split_rest(rest, rest.data() == part.data() ? place : TextPlace::begins, buffers, tokens);
    });
  }

  void split_rest(std::string_view rest, TextPlace place, Buffers& buffers,
                  std::vector<int32_t>& tokens) const {
    splitter_.split(rest, place, buffers.matcher,
                    [&](std::string_view word) { encode_word(word, buffers, tokens); });
  }

  // The same for the beginning of a part, as far as it does not depend on what follows. Returns its
  // length in bytes.
  size_t encode_some(std::string_view part, TextPlace place, std::vector<ByteRange> letters,
                     Buffers& buffers, std::vector<int32_t>& tokens) const {
    const size_t before = tokens.size();
    // The last characters may be composed with the characters that follow.
    if (composes_) part = before_last_ascii(part);
    const std::string made = composes_ ? composed(part) : "";
    if (composes_) compose(letters, part, made);
    const size_t taken = added_[1].split_beginning(
        composes_ ? std::string_view(made) : part, place, letters, tokens,
        [&](std::string_view rest, TextPlace here) { split_rest(rest, here, buffers, tokens); },
        [&](std::string_view rest, TextPlace here) {
          return splitter_.split_beginning(rest, here, buffers.matcher, [&](std::string_view word) {
            encode_word(word, buffers, tokens);
          });
        });
    const std::optional<size_t> bytes =
        composes_ ? bytes_composed_to(part, made, taken) : std::optional(taken);
    if (bytes) return *bytes;
    tokens.resize(before);
    return 0;
  }

  void encode_word(std::string_view word, Buffers& buffers, std::vector<int32_t>& tokens) const {
    const uint64_t hash = WordCache::hash(word);
    const auto known = buffers.cache.find(word, hash);
    if (known) {
      tokens.insert(tokens.end(), known->begin(), known->end());
      return;
    }
    merge_word(word, buffers);
    buffers.cache.keep(word, hash, buffers.word);
    tokens.insert(tokens.end(), buffers.word.begin(), buffers.word.end());
  }

  // Puts the tokens of a word into buffers.word.
  void merge_word(std::string_view word, Buffers& buffers) const {
    buffers.word.clear();
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end())
      return buffers.word.push_back(whole->second);
    bool after_unknown = false;
    for (const char byte : word) {
      const int32_t token = bytes_[static_cast<unsigned char>(byte)];
      const bool is_known = token != BpeDescription::none;
      if (is_known) buffers.word.push_back(token);
      else if (unknown_ != BpeDescription::none && !(after_unknown && fuses_unknown_))
        buffers.word.push_back(unknown_);
      after_unknown = !is_known;
    }
    merges_.apply(buffers.word, buffers.merging);
  }

  std::string name_;
  std::vector<std::string> tokens_;
  std::array<int32_t, 256> bytes_;
  int32_t unknown_, end_of_text_;
  std::vector<int32_t> before_text_, after_text_;
  bool fuses_unknown_, composes_;
  Merges merges_;
  WordSplitter splitter_;
  std::array<AddedTokens, 2> added_;
  std::map<std::string, int32_t> control_;
  bool finds_control_again_ = false;
  std::unordered_map<std::string_view, int32_t> whole_words_;
  mutable Idle<Buffers> idle_;
};

}  // namespace

TokenizerPtr make_bpe(BpeDescription description) {
  return std::make_shared<Bpe>(std::move(description));
}

}  // namespace accrue
