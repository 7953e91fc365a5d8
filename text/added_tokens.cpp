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

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), ends_{none} {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    uint32_t node = 0;
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

void AddedTokens::split(std::string_view text, const Use& use) const {
  size_t from = 0, done = 0;
  while (const Found found = find(text, from)) {
    size_t begin = found.begin, end = found.end;
    from = end;
    if (found.token->takes_space_before)
      begin = std::max(done, begin - space_at_end(text.substr(0, begin)));
    if (found.token->takes_space_after) end += space_at_start(text.substr(end));
    if (begin > done) use(text.substr(done, begin - done), none);
    use(text.substr(begin, end - begin), found.token->token);
    done = end;
  }
  if (done < text.size()) use(text.substr(done), none);
}

}  // namespace accrue
