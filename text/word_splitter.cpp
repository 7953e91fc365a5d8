#include "text/word_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace accrue {

const char* const gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void WordSplitter::split(std::string_view text, Matcher& matcher, const Use& use) const {
  while (!text.empty()) {
    const size_t valid = valid_utf8_bytes(text);
    if (valid > 0) split_from(0, text.substr(0, valid), matcher, use);
    if (valid < text.size()) use(text.substr(valid, 1));
    text.remove_prefix(std::min(text.size(), valid + 1));
  }
}

void WordSplitter::split_from(size_t step, std::string_view part, Matcher& matcher,
                              const Use& use) const {
  std::string with_blank;
  if (step == blank_before_step_ && !part.starts_with(' ')) {
    with_blank = fmt::format(" {}", part);
    part = with_blank;
  }
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
