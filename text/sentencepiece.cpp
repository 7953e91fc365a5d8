#include "text/sentencepiece.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "text/added_tokens.h"
#include "text/merges.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace accrue {
namespace {

using Kind = SentencePieces::Kind;

constexpr std::string_view space = "\xe2\x96\x81", unknown_text = " \xe2\x81\x87 ";
constexpr size_t max_piece_bytes = 1024;
constexpr int32_t no_token = -1;

// The text must not be empty. A byte that is not UTF-8 is a character by itself.
std::string_view first_character_of(std::string_view text) {
  return text.substr(0, std::max<size_t>(1, first_character(text).bytes));
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at; (at = text.find(from)) != text.npos; text.remove_prefix(at + from.size()))
    result.append(text.substr(0, at)).append(to);
  return result.append(text);
}

// The spaces at the beginning, and the text up to the next space.
std::string_view first_word(std::string_view text) {
  size_t begin = 0;
  while (text.substr(begin).starts_with(space)) begin += space.size();
  return text.substr(0, text.find(space, begin));
}

// The byte NN of a piece <0xNN>.
std::optional<uint8_t> byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return {};
  uint8_t value = 0;
  const char* const end = piece.data() + 5;
  const auto [stop, error] = std::from_chars(piece.data() + 3, end, value, 16);
  if (stop != end || error != std::errc()) return {};
  return value;
}

void check_pieces(const SentencePieces& in) {
  const size_t n = in.pieces.size();
  check(in.scores.size() == n && in.kinds.size() == n,
        "'{}' has {} tokens, scores of {} and types of {}: expected as many", in.name, n,
        in.scores.size(), in.kinds.size());
  std::unordered_set<std::string_view> all;
  for (size_t i = 0; i < n; ++i) {
    const std::string& piece = in.pieces[i];
    check(!piece.empty(), "'{}': token {} is empty", in.name, i);
    check(all.insert(piece).second, "'{}' has the token '{}' twice", in.name, piece);
    check(piece.size() <= max_piece_bytes || in.kinds[i] != Kind::normal,
          "'{}': token {} has {} bytes, expected at most {}", in.name, i, piece.size(),
          max_piece_bytes);
    check(std::isfinite(in.scores[i]), "'{}': the score of token {} is {}", in.name, i,
          in.scores[i]);
  }
}

class SentencePieceBpe : public Tokenizer {
 public:
  explicit SentencePieceBpe(SentencePieces in) : in_(std::move(in)) {
    check_pieces(in_);
    bytes_.fill(no_token);
    for (size_t i = 0; i < in_.pieces.size(); ++i) {
      texts_.push_back(with_plain_spaces(in_.pieces[i]));
      if (in_.kinds[i] == Kind::byte) take_byte(i);
      if (in_.kinds[i] == Kind::unknown) unknown_ = static_cast<int32_t>(i);
    }
    const auto with_byte = 256 - std::ranges::count(bytes_, no_token);
    check(with_byte == 256 || (with_byte == 0 && unknown_ != no_token),
          "'{}' has tokens of {} bytes and {} unknown token: expected one of each byte, or none "
          "and an unknown token",
          in_.name, with_byte, unknown_ == no_token ? "no" : "an");
    has_bytes_ = with_byte > 0;
    number_symbols();
    merges_ = Merges(find_merges());
    control_ = found_in_texts(Kind::control);
    user_defined_ = found_in_texts(Kind::user_defined);
  }

  const SentencePieces& pieces() const { return in_; }
  int64_t size() const override { return std::ssize(in_.pieces); }

  std::vector<int32_t> before_text() const override { return in_.before_text; }
  std::vector<int32_t> after_text() const override { return in_.after_text; }

  int32_t end_of_text() const override {
    check(in_.end_of_text != no_token, "'{}' has no token for the end of a text", in_.name);
    return in_.end_of_text;
  }

  std::map<std::string, int32_t> control_tokens() const override {
    std::map<std::string, int32_t> found;
    for (const int32_t token : control_.control()) found.emplace(in_.pieces[size_t(token)], token);
    return found;
  }

  std::vector<int32_t> encode(std::string_view text, TextPlace place,
                              Letters letters) const override {
    auto buffers = idle_.take();
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 4);
    control_.split(text, letters, [&](std::string_view part, int32_t token) {
      if (token != AddedTokens::none) return tokens.push_back(token);
      encode_part(part, part.data() == text.data() ? place : TextPlace::begins, *buffers, tokens);
    });
    idle_.give_back(std::move(buffers));
    return tokens;
  }

  Beginning encode_beginning(std::string_view text, TextPlace place,
                             Letters letters) const override {
    Beginning result;
    if (joins_words_ || !symbols_.contains(space)) return result;
    auto buffers = idle_.take();
    const auto encode = [&](std::string_view part, TextPlace here) {
      encode_part(part, here, *buffers, result.tokens);
    };
    result.bytes = control_.split_beginning(text, place, letters, result.tokens, encode,
                                            [&](std::string_view part, TextPlace here) {
                                              const size_t bytes = last_word(part);
                                              if (bytes > 0) encode(part.substr(0, bytes), here);
                                              return bytes;
                                            });
    if (result.bytes == 0) result.tokens.clear();
    idle_.give_back(std::move(buffers));
    return result;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    bool begins = in_.adds_space;
    for (const int32_t token : tokens) {
      check(0 <= token && token < size(), "token {} is outside [0, {})", token, size());
      const Kind kind = in_.kinds[size_t(token)];
      std::string_view more = kind == Kind::unknown ? unknown_text : texts_[size_t(token)];
      const bool may_begin = kind == Kind::normal || kind == Kind::user_defined;
      if (begins && may_begin && more.starts_with(' ')) more.remove_prefix(1);
      text += more;
      begins = in_.adds_space && kind == Kind::control;
    }
    return text;
  }

 private:
  // The buffers of a call of encode().
  struct Buffers {
    WordCache cache;
    std::vector<int32_t> word, symbols;
    Merges::Scratch merging;
  };

  void encode_part(std::string_view part, TextPlace place, Buffers& buffers,
                   std::vector<int32_t>& tokens) const {
    const bool has_space = in_.adds_space && place == TextPlace::begins;
    const std::string escaped = as_piece(part);
    user_defined_.split(has_space ? std::string(space) + escaped : escaped, {},
                        [&](std::string_view rest, int32_t token) {
                          if (token != AddedTokens::none) return tokens.push_back(token);
                          while (!rest.empty()) {
                            const std::string_view word = joins_words_ ? rest : first_word(rest);
                            encode_word(word, buffers, tokens);
                            rest.remove_prefix(word.size());
                          }
                        });
  }

  // The place where the last word begins: the last space that follows another character.
  static size_t last_word(std::string_view part) {
    size_t at = part.size();
    while (at > 0 && (at = part.rfind(' ', at - 1)) != part.npos && at > 0)
      if (part[at - 1] != ' ' && !part.substr(0, at).ends_with(space)) return at;
    return 0;
  }

  void take_byte(size_t i) {
    const auto value = byte_of(in_.pieces[i]);
    check(value.has_value(), "'{}': token {} is the byte '{}', expected <0x00> to <0xFF>", in_.name,
          i, in_.pieces[i]);
    bytes_[*value] = static_cast<int32_t>(i);
    texts_[i] = static_cast<char>(*value);
  }

  AddedTokens found_in_texts(Kind kind) const {
    std::vector<AddedToken> found;
    for (size_t i = 0; i < in_.pieces.size(); ++i)
      if (in_.kinds[i] == kind)
        found.push_back({.content = in_.pieces[i],
                         .token = static_cast<int32_t>(i),
                         .is_control = kind == Kind::control});
    return AddedTokens(std::move(found));
  }

  bool is_normal(size_t i) const { return in_.kinds[i] == Kind::normal; }

  // Symbols are the normal pieces, under their own numbers, and characters that occur only within
  // pieces, under numbers after all pieces.
  void number_symbols() {
    for (size_t i = 0; i < in_.pieces.size(); ++i) {
      if (is_normal(i)) symbols_.emplace(in_.pieces[i], static_cast<int32_t>(i));
      if (is_normal(i) || in_.kinds[i] == Kind::user_defined)
        joins_words_ |= first_word(in_.pieces[i]).size() < in_.pieces[i].size();
    }
    for (size_t i = 0; i < in_.pieces.size(); ++i) {
      if (!is_normal(i)) continue;
      std::string_view rest = in_.pieces[i];
      while (!rest.empty()) {
        const std::string_view character = first_character_of(rest);
        const auto number = static_cast<int32_t>(in_.pieces.size() + characters_.size());
        if (symbols_.emplace(character, number).second) characters_.push_back(character);
        rest.remove_prefix(character.size());
      }
    }
  }

  // All ways to join two symbols into a piece. The score of the piece determines the rank.
  std::vector<Merges::Ranked> find_merges() const {
    std::vector<float> scores;
    for (size_t i = 0; i < in_.pieces.size(); ++i)
      if (is_normal(i)) scores.push_back(in_.scores[i]);
    std::ranges::sort(scores, std::greater<>());
    std::vector<Merges::Ranked> merges;
    for (size_t i = 0; i < in_.pieces.size(); ++i) {
      if (!is_normal(i)) continue;
      const auto rank = static_cast<uint32_t>(
          std::ranges::lower_bound(scores, in_.scores[i], std::greater<>()) - scores.begin());
      const std::string_view piece = in_.pieces[i];
      for (size_t at = first_character_of(piece).size(); at < piece.size();
           at += first_character_of(piece.substr(at)).size()) {
        const auto left = symbols_.find(piece.substr(0, at));
        const auto right = symbols_.find(piece.substr(at));
        if (left != symbols_.end() && right != symbols_.end())
          merges.push_back({{left->second, right->second, static_cast<int32_t>(i)}, rank});
      }
    }
    return merges;
  }

  void encode_word(std::string_view word, Buffers& buffers, std::vector<int32_t>& tokens) const {
    const uint64_t hash = WordCache::hash(word);
    const auto known = buffers.cache.find(word, hash);
    if (!known) {
      split_word(word, buffers);
      buffers.cache.keep(word, hash, buffers.word);
    }
    for (const int32_t token : known ? *known : std::span<const int32_t>(buffers.word))
      append(token, tokens);
  }

  // Puts the tokens of a word into buffers.word.
  void split_word(std::string_view word, Buffers& buffers) const {
    std::vector<int32_t>&tokens = buffers.word, &symbols = buffers.symbols;
    tokens.clear();
    symbols.clear();
    const auto use_symbols = [&] {
      merges_.apply(symbols, buffers.merging);
      for (const int32_t symbol : symbols)
        if (symbol < size()) tokens.push_back(symbol);
        else append_character(characters_[size_t(symbol - size())], tokens);
      symbols.clear();
    };
    while (!word.empty()) {
      const std::string_view character = first_character_of(word);
      const auto symbol = symbols_.find(character);
      if (symbol != symbols_.end()) {
        symbols.push_back(symbol->second);
      } else {
        use_symbols();
        append_character(character, tokens);
      }
      word.remove_prefix(character.size());
    }
    use_symbols();
  }

  // Appends a character that is not a piece.
  void append_character(std::string_view character, std::vector<int32_t>& tokens) const {
    if (!has_bytes_) return append(unknown_, tokens);
    for (const char byte : character) tokens.push_back(bytes_[static_cast<unsigned char>(byte)]);
  }

  void append(int32_t token, std::vector<int32_t>& tokens) const {
    if (token != unknown_ || tokens.empty() || tokens.back() != token) tokens.push_back(token);
  }

  const SentencePieces in_;
  std::vector<std::string> texts_;  // of pieces, as decode() spells them
  std::array<int32_t, 256> bytes_;
  bool has_bytes_ = false;
  int32_t unknown_ = no_token;
  std::unordered_map<std::string_view, int32_t> symbols_;
  std::vector<std::string_view> characters_;
  // True if a piece has a space after another character. Words then cannot be encoded separately.
  bool joins_words_ = false;
  Merges merges_{std::vector<Merges::Merge>()};
  AddedTokens control_{{}}, user_defined_{{}};
  mutable Idle<Buffers> idle_;
};

}  // namespace

std::string with_plain_spaces(std::string_view piece) { return replaced(piece, space, " "); }
std::string as_piece(std::string_view text) { return replaced(text, " ", space); }

const SentencePieces* sentencepieces_in(const Tokenizer& tokenizer) {
  const auto* const bpe = dynamic_cast<const SentencePieceBpe*>(&tokenizer);
  return bpe ? &bpe->pieces() : nullptr;
}

TokenizerPtr make_sentencepiece_bpe(SentencePieces pieces) {
  return std::make_shared<SentencePieceBpe>(std::move(pieces));
}

}  // namespace accrue
