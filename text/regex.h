#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace accrue {

// The buffers that a thread needs to search for matches.
class Matcher {
 public:
  Matcher();

 private:
  friend class Regex;
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
  };
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
  std::unique_ptr<pcre2_real_match_context_8, Free> context_;
};

// A regular expression in the syntax of tokenizers' files, which is Oniguruma's, run by PCRE2.
// Supports constructs that mean the same in both or can be translated: classes, groups,
// alternatives, repetitions, lookahead and lookbehind, \s \S \d \D \p{..} \P{..} by Unicode, and
// case-insensitive groups.
class Regex {
 public:
  // Throws Error for anything else, and for an expression that matches the empty string.
  explicit Regex(std::string_view pattern);

  struct Match {
    size_t begin, end;
  };
  // The first match that begins at `from` or later in valid UTF-8. Throws Error if finding one
  // takes too many steps or too much memory.
  std::optional<Match> find(std::string_view text, size_t from, Matcher& matcher) const;
  // The same in the beginning of a text: returns nothing if text that follows may change the match.
  // In that case no match begins before `none_before`.
  std::optional<Match> find_surely(std::string_view text, size_t from, Matcher& matcher,
                                   size_t& none_before) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  int search(std::string_view text, size_t from, Matcher& matcher, uint32_t options) const;

  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool is_compiled_;   // to machine code
  bool looks_behind_;  // the text before a match may change it
};

// An expression that matches only this text.
std::string regex_of_literal(std::string_view text);

}  // namespace accrue
