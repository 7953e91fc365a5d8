#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace accrue {
namespace {

uint64_t step(uint32_t node, char byte) {
  return uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

size_t space_at_end(std::string_view text) {
  const size_t all = text.size();
  for (Character last; (last = last_character(text)).bytes > 0 && is_white_space(last.code);)
    text.remove_suffix(last.bytes);
  return all - text.size();
}

size_t space_at_start(std::string_view text) {
  const size_t all = text.size();
  for (Character next; (next = first_character(text)).bytes > 0 && is_white_space(next.code);)
    text.remove_prefix(next.bytes);
  return all - text.size();
}

bool is_beside_word(std::string_view text, size_t begin, size_t end) {
  const Character before = last_character(text.substr(0, begin));
  const Character after = first_character(text.substr(end));
  return (before.bytes > 0 && is_of_word(before.code)) ||
         (after.bytes > 0 && is_of_word(after.code));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), ends_{none} {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    uint32_t node = 0;
    longest_ = std::max(longest_, tokens_[i].content.size());
    takes_space_before_ |= tokens_[i].takes_space_before;
    has_single_words_ |= tokens_[i].is_single_word;
    for (const char byte : tokens_[i].content) {
      const auto [child, is_new] =
          children_.try_emplace(step(node, byte), static_cast<uint32_t>(ends_.size()));
      if (is_new) ends_.push_back(none);
      node = child->second;
    }
    ends_[node] = static_cast<int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
  }
}

std::vector<int32_t> AddedTokens::control() const {
  std::vector<int32_t> found;
  for (const AddedToken& token : tokens_)
    if (token.is_control) found.push_back(token.token);
  return found;
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    Found longest{};
    uint32_t node = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      const auto child = children_.find(step(node, text[end]));
      if (child == children_.end()) break;
      node = child->second;
      if (ends_[node] != none) longest = {begin, end + 1, &tokens_[size_t(ends_[node])]};
    }
    if (longest.token) return longest;
  }
  return {};
}

void AddedTokens::split(std::string_view text, Letters letters, const Use& use) const {
  size_t from = 0, done = 0;
  while (const Found found = find(text, from)) {
    size_t begin = found.begin, end = found.end;
    from = end;
    if (found.token->is_control && is_within(letters, begin)) continue;
    if (found.token->is_single_word && is_beside_word(text, begin, end)) continue;
    if (found.token->takes_space_before)
      begin = std::max(done, begin - space_at_end(text.substr(0, begin)));
    if (found.token->takes_space_after) end += space_at_start(text.substr(end));
    if (begin > done) use(text.substr(done, begin - done), none);
    use(text.substr(begin, end - begin), found.token->token);
    done = end;
  }
  if (done < text.size()) use(text.substr(done), none);
}

size_t AddedTokens::split_beginning(std::string_view text, TextPlace place, Letters letters,
                                    std::vector<int32_t>& tokens, const UsePart& use,
                                    const UseSome& use_some) const {
  if (has_single_words_) return 0;
  // Tokens that begin before this place are found completely.
  size_t limit = text.size() - std::min(text.size(), longest_);
  if (takes_space_before_) limit -= space_at_end(text.substr(0, limit));
  size_t done = 0, begin = 0;  // the end of the consumed text, and the beginning of the next part
  size_t before = tokens.size();  // the number of tokens before the last one
  bool is_over = false, after_token = false;
  split(text, letters, [&](std::string_view part, int32_t token) {
    if (is_over) return;
    const size_t end = begin + part.size();
    const TextPlace here = begin == 0 ? place : TextPlace::begins;
    is_over = begin >= limit || (token == none ? end >= limit : end > limit);
    if (token != none) {
      if (is_over) return;
      // Stopping right behind the token would look the same as stopping within a part.
      done = begin;
      before = tokens.size();
      tokens.push_back(token);
      after_token = true;
    } else {
      const size_t taken = begin >= limit ? 0
                           : is_over      ? use_some(part.substr(0, limit - begin), here)
                                          : (use(part, here), part.size());
      if (taken > 0) {
        done = begin + taken;
        after_token = false;
      }
    }
    begin = end;
  });
  if (after_token) tokens.resize(before);
  return done;
}

}  // namespace accrue
