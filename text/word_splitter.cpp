#include "text/word_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace accrue {

const char* const gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The part, with a blank in front if one is added before the first step.
std::string WordSplitter::beginning_of(std::string_view part, TextPlace place) const {
  const bool has_blank = blank_before_step_ != 0 || place != TextPlace::begins;
  return fmt::format("{}{}", has_blank || part.starts_with(' ') ? "" : " ", part);
}

void WordSplitter::split(std::string_view text, TextPlace place, Matcher& matcher,
                         const Use& use) const {
  for (; !text.empty(); place = TextPlace::begins) {
    const size_t valid = valid_utf8_bytes(text);
    const std::string_view part = text.substr(0, valid);
    if (valid > 0 && blank_before_step_ != 0) split_at(0, part, matcher, use);
    else if (valid > 0) split_at(0, beginning_of(part, place), matcher, use);
    if (valid < text.size()) use(text.substr(valid, 1));
    text.remove_prefix(std::min(text.size(), valid + 1));
  }
}

size_t WordSplitter::split_beginning(std::string_view text, TextPlace place, Matcher& matcher,
                                     const Use& use) const {
  constexpr size_t most_of_character = 4;
  size_t done = 0, valid = 0;
  // Bytes at the end that are not UTF-8 may be the beginning of a character.
  while ((valid = valid_utf8_bytes(text.substr(done))) + most_of_character <= text.size() - done) {
    split(text.substr(done, valid + 1), place, matcher, use);
    place = TextPlace::begins;
    done += valid + 1;
  }
  const std::string begun = beginning_of(text.substr(done, valid), place);
  const size_t blanks = begun.size() - valid;
  return done + std::max(blanks, split_surely(0, begun, matcher, use)) - blanks;
}

size_t WordSplitter::split_surely(size_t step, std::string_view part, Matcher& matcher,
                                  const Use& use) const {
  if (step == steps_.size()) return 0;
  const Step& cut = steps_[step];
  const auto use_part = [&](std::string_view inner) { split_from(step + 1, inner, matcher, use); };
  size_t end = 0, none_before = 0;
  while (const auto match = cut.pattern.find_surely(part, end, matcher, none_before)) {
    if (cut.keeps_gaps && match->begin > end) use_part(part.substr(end, match->begin - end));
    if (cut.keeps_matches) use_part(part.substr(match->begin, match->end - match->begin));
    end = match->end;
  }
  // The text after the last match is a gap, which later steps may split further. They must not if a
  // blank is added before one of them, because the rest of the gap would then get a blank, too.
  if (!cut.keeps_gaps || (blank_before_step_ != nowhere && blank_before_step_ > step)) return end;
  return end + split_surely(step + 1, part.substr(end, none_before - end), matcher, use);
}

void WordSplitter::split_from(size_t step, std::string_view part, Matcher& matcher,
                              const Use& use) const {
  if (step != blank_before_step_ || part.starts_with(' '))
    return split_at(step, part, matcher, use);
  split_at(step, fmt::format(" {}", part), matcher, use);
}

void WordSplitter::split_at(size_t step, std::string_view part, Matcher& matcher,
                            const Use& use) const {
  if (step == steps_.size()) return use(part);
  const auto use_part = [&](std::string_view inner) {
    if (step + 1 == steps_.size() && step + 1 != blank_before_step_) use(inner);
    else split_from(step + 1, inner, matcher, use);
  };
  const Step& cut = steps_[step];
  size_t end = 0;
  while (end < part.size()) {
    const auto match = cut.pattern.find(part, end, matcher);
    const size_t begin = match ? match->begin : part.size();
    if (cut.keeps_gaps && begin > end) use_part(part.substr(end, begin - end));
    if (match && cut.keeps_matches) use_part(part.substr(begin, match->end - begin));
    end = match ? match->end : part.size();
  }
}

}  // namespace accrue
