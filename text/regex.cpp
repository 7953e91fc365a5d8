#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "core/error.h"
#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace accrue {
namespace {

constexpr size_t max_pattern_bytes = 16 << 10;
// For one match. A hostile expression can ask for any.
constexpr uint32_t max_match_steps = 10'000'000, max_heap_kib = 32 << 10;

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string reason_of(int error) {
  char text[256] = "";
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

}  // namespace

void Matcher::Free::operator()(pcre2_real_match_data_8* data) const { pcre2_match_data_free(data); }
void Matcher::Free::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}
void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Matcher::Matcher()
    : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
  if (!data_ || !context_) throw std::bad_alloc();
  pcre2_set_match_limit(context_.get(), max_match_steps);
  pcre2_set_heap_limit(context_.get(), max_heap_kib);
}

Regex::Regex(std::string_view pattern) {
  check(pattern.size() <= max_pattern_bytes,
        "a regular expression of {} bytes: at most {} are read", pattern.size(), max_pattern_bytes);
  check(valid_utf8_bytes(pattern) == pattern.size(), "a regular expression is not UTF-8");
  const std::string translated = pcre2_pattern(pattern);
  int error = 0;
  size_t at = 0;
  code_.reset(
      pcre2_compile(code_units(translated), translated.size(), PCRE2_UTF, &error, &at, nullptr));
  check(code_ != nullptr, "the regular expression '{}' is not valid: {}", pattern,
        reason_of(error));
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  check(matches_nothing == 0, "the regular expression '{}' can match no characters at all",
        pattern);
  // Where memory must not be executable the expression is interpreted.
  is_compiled_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  looks_behind_ = pattern.find("(?<") != pattern.npos;
}

int Regex::search(std::string_view text, size_t from, Matcher& matcher, uint32_t options) const {
  const auto run = [&](auto* match, uint32_t more) {
    return match(code_.get(), code_units(text), text.size(), from, options | more,
                 matcher.data_.get(), matcher.context_.get());
  };
  int found = is_compiled_ ? run(pcre2_jit_match, 0) : PCRE2_ERROR_JIT_STACKLIMIT;
  // Machine code has a stack of 32 KiB.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)
    found = run(pcre2_match, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK);
  check(found >= 0 || found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_PARTIAL,
        "no match of a tokenizer's regular expression was found: {}", reason_of(found));
  return found;
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from,
                                        Matcher& matcher) const {
  if (search(text, from, matcher, 0) == PCRE2_ERROR_NOMATCH) return std::nullopt;
  const size_t* const ends = pcre2_get_ovector_pointer(matcher.data_.get());
  return Match{ends[0], ends[1]};
}

std::optional<Regex::Match> Regex::find_surely(std::string_view text, size_t from, Matcher& matcher,
                                               size_t& none_before) const {
  none_before = from;
  if (looks_behind_) return std::nullopt;
  // A hard partial match is one that looked at the text's end, so that a whole one did not.
  const int found = search(text, from, matcher, PCRE2_PARTIAL_HARD);
  const size_t* const ends = pcre2_get_ovector_pointer(matcher.data_.get());
  if (found >= 0) return Match{ends[0], ends[1]};
  none_before = found == PCRE2_ERROR_PARTIAL ? ends[0] : text.size();
  return std::nullopt;
}

std::string regex_of_literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace accrue
