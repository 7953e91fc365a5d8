#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "core/error.h"
#include "data/words.h"
#include "text/utf8.h"

namespace accrue {
namespace {

// Unicode's White_Space, as items of a character class. PCRE2's \s also contains U+180E.
constexpr const char* spaces =
    "\\t-\\r "
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr const char* not_spaces =
    "\\x00-\\x08\\x0e-\\x1f!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";

constexpr std::array properties{"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
                                "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
                                "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};
constexpr std::array scripts{"Han", "Hiragana", "Katakana", "Hangul"};
// Longer ones come first.
constexpr std::array groups{"(?<=", "(?<!", "(?i:", "(?:", "(?=", "(?!", "(?>"};

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) translate_item();
    return std::move(out_);
  }

 private:
  void require(bool ok, std::string_view what) const {
    check(ok, "the regular expression '{}' has {} at byte {}, which is not supported", pattern_,
          what, at_);
  }
  bool at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool at_end() const { return at_ >= pattern_.size(); }
  void copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  void put(std::string_view text, size_t instead_of_bytes) {
    out_ += text;
    at_ += instead_of_bytes;
  }

  void translate_item() {
    switch (pattern_[at_]) {
      case '\\': return translate_escape(false);
      case '[': return translate_class();
      case '(': return translate_group();
      case '{': return translate_repetition();
      case '^':
      case '$': return require(false, "an anchor");
      default: return copy(1);
    }
  }

  void translate_group() {
    if (!at("(?")) return put("(?:", 1);  // captures are not used
    for (const std::string_view group : groups)
      if (at(group)) return copy(group.size());
    require(false, "a group of this kind");
  }

  // Translates {n}, {n,} or {n,m}. A plus sign after it means another repetition in Oniguruma, but
  // a possessive one in PCRE2. A question mark after {n} also has different meanings.
  void translate_repetition() {
    const size_t end = pattern_.find('}', at_);
    require(end != std::string_view::npos, "an opening brace");
    std::string_view counts = pattern_.substr(at_ + 1, end - at_ - 1);
    require(!counts.empty() && is_digit(counts.front()) && std::ranges::count(counts, ',') <= 1 &&
                std::ranges::all_of(counts, [](char c) { return is_digit(c) || c == ','; }),
            "an opening brace");
    copy(end - at_ + 1);
    require(!at("+") && !at("?") && !at("*"), "a sign after a repetition in braces");
  }

  void translate_class() {
    copy(1);
    if (at("^")) copy(1);
    require(!at("]"), "an empty class");
    while (!at("]")) {
      require(!at_end(), "a class without an end");
      require(!at("[") && !at("&&"), "a class in a class");
      if (at("\\")) translate_escape(true);
      else copy(1);
    }
    copy(1);
  }

  void put_class(std::string_view items, bool in_class) {
    put(in_class ? std::string(items) : fmt::format("[{}]", items), 2);
  }

  void translate_escape(bool in_class) {
    require(at_ + 1 < pattern_.size(), "a backslash at the end");
    const char c = pattern_[at_ + 1];
    switch (c) {
      case 's': return put_class(spaces, in_class);
      case 'S': return put_class(not_spaces, in_class);
      case 'd': return put("\\p{Nd}", 2);
      case 'D': return put("\\P{Nd}", 2);
      case 'v': return put("\\x0b", 2);
      case 'r':
      case 'n':
      case 't':
      case 'f': return copy(2);
      case 'p':
      case 'P': return translate_property();
      case 'u': return translate_code();
      default:
        require(!is_letter(c) && !is_digit(c) && static_cast<unsigned char>(c) < 0x80,
                fmt::format("\\{}", c));
        return copy(2);
    }
  }

  void translate_property() {
    const size_t end = pattern_.find('}', at_);
    require(at_ + 3 < pattern_.size() && pattern_[at_ + 2] == '{' && end != std::string_view::npos,
            "a property without braces");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool is_inverted = name.starts_with('^') != (pattern_[at_ + 1] == 'P');
    if (name.starts_with('^')) name.remove_prefix(1);
    const bool is_script = std::ranges::find(scripts, name) != scripts.end();
    require(is_script || std::ranges::find(properties, name) != properties.end(),
            fmt::format("the property '{}'", name));
    put(fmt::format("\\{}{{{}{}}}", is_inverted ? 'P' : 'p', is_script ? "sc:" : "", name),
        end - at_ + 1);
  }

  // Translates \u and four hexadecimal digits.
  void translate_code() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    require(digits.size() == 4 && std::ranges::all_of(digits,
                                                      [](char c) {
                                                        return is_digit(c) ||
                                                               (c >= 'a' && c <= 'f') ||
                                                               (c >= 'A' && c <= 'F');
                                                      }),
            "\\u without four digits");
    put(fmt::format("\\x{{{}}}", digits), 6);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

// Translates a regular expression of Oniguruma into PCRE2's syntax. Throws Error, which says what
// and where, for a construct that has another meaning in PCRE2 and no translation.
std::string pcre2_pattern(std::string_view pattern) { return Translation(pattern).run(); }

constexpr size_t max_pattern_bytes = 16 << 10;
// Limits for one match, because a hostile expression can take any number of steps.
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
  // Where memory must not be executable, the expression is interpreted.
  is_compiled_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  looks_behind_ = pattern.find("(?<") != pattern.npos;
}

int Regex::search(std::string_view text, size_t from, Matcher& matcher, uint32_t options) const {
  const auto run = [&](auto* match, uint32_t more) {
    return match(code_.get(), code_units(text), text.size(), from, options | more,
                 matcher.data_.get(), matcher.context_.get());
  };
  int found = is_compiled_ ? run(pcre2_jit_match, 0) : PCRE2_ERROR_JIT_STACKLIMIT;
  // Compiled code has a stack of 32 KiB; the interpreter uses the heap instead.
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
  // With PCRE2_PARTIAL_HARD, a search that reaches the end of the text returns a partial match, so
  // a full match does not depend on the text that follows.
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
