#include "text/bpe.h"

#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "text/idle.h"
#include "text/normalization.h"
#include "text/word_cache.h"

namespace accrue {
namespace {

// What a call of encode() works with.
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
        fuses_unknown_(description.fuses_unknown),
        composes_(description.composes),
        merges_(description.merges),
        splitter_(std::move(description.steps), description.blank_before_step),
        added_{AddedTokens(std::move(description.added[0])),
               AddedTokens(std::move(description.added[1]))} {
    for (const int32_t token : description.whole_words)
      whole_words_.emplace(tokens_[size_t(token)], token);
  }

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }

  int32_t end_of_text() const override {
    check(end_of_text_ != BpeDescription::none,
          "'{}' has no token for the end of a text: neither <|endoftext|> nor an eos_token that a "
          "tokenizer_config.json beside it names",
          name_);
    return end_of_text_;
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    auto buffers = idle_.take();
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 4);
    const WordSplitter::Use use_word = [&](std::string_view word) {
      encode_word(word, *buffers, tokens);
    };
    const auto or_token = [&](auto use_rest) {
      return [&tokens, use_rest](std::string_view part, int32_t token) {
        if (token != AddedTokens::none) tokens.push_back(token);
        else use_rest(part);
      };
    };
    const AddedTokens::Use use_rest =
        or_token([&](std::string_view part) { splitter_.split(part, buffers->matcher, use_word); });
    added_[0].split(text, or_token([&](std::string_view part) {
                      if (composes_) added_[1].split(composed(part), use_rest);
                      else added_[1].split(part, use_rest);
                    }));
    idle_.give_back(std::move(buffers));
    return tokens;
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

  // Into buffers.word.
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
  bool fuses_unknown_, composes_;
  Merges merges_;
  WordSplitter splitter_;
  std::array<AddedTokens, 2> added_;
  std::unordered_map<std::string_view, int32_t> whole_words_;
  mutable Idle<Buffers> idle_;
};

}  // namespace

TokenizerPtr make_bpe(BpeDescription description) {
  return std::make_shared<Bpe>(std::move(description));
}

}  // namespace accrue
