#include "text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace accrue {

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool is_valid = bytes == 2 ||
                        (bytes == 3 && code >= 0x800 && (code < 0xd800 || code > 0xdfff)) ||
                        (bytes == 4 && code >= 0x10000 && code <= 0x10ffff);
  return is_valid ? Character{code, bytes} : Character{};
}

Character last_character(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(4, text.size()); ++bytes) {
    const Character last = first_character(text.substr(text.size() - bytes));
    if (last.bytes == bytes) return last;
  }
  return {};
}

size_t valid_utf8_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) std::memcpy(&eight, text.data() + at, sizeof eight);
    else eight = ~uint64_t{0};
    if ((eight & 0x8080808080808080u) == 0) {
      at += sizeof eight;
      continue;
    }
    const size_t bytes = first_character(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return at;
}

void NotUtf8::add(std::string_view piece) {
  constexpr size_t most_of_character = 4;
  rest_ += piece;
  std::string_view text = rest_;
  while (true) {
    const size_t valid = valid_utf8_bytes(text);
    at_ += static_cast<int64_t>(valid);
    text.remove_prefix(valid);
    if (text.size() < most_of_character) break;
    if (!first_) first_ = at_;
    ++count_, ++at_;
    text.remove_prefix(1);
  }
  rest_.erase(0, rest_.size() - text.size());
}

int64_t NotUtf8::count() const {
  int64_t all = count_;
  for (std::string_view text = rest_; !text.empty();) {
    const size_t valid = valid_utf8_bytes(text);
    all += valid < text.size();
    text.remove_prefix(std::min(valid + 1, text.size()));
  }
  return all;
}

int64_t NotUtf8::first() const {
  return first_.value_or(at_ + static_cast<int64_t>(valid_utf8_bytes(rest_)));
}

void append_utf8(std::string& text, uint32_t code) {
  const auto continued = [&](uint32_t shift) {
    text += static_cast<char>(0x80 | (code >> shift & 0x3f));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    continued(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    continued(6), continued(0);
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    continued(12), continued(6), continued(0);
  }
}

bool is_of_word(uint32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  // Letters in circles and squares, which are alphabetic, and what joins letters.
  return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189) ||
         code == 0x200c || code == 0x200d;
}

bool is_white_space(uint32_t code) {
  constexpr std::array others{0x85u, 0xa0u, 0x1680u, 0x2028u, 0x2029u, 0x202fu, 0x205fu, 0x3000u};
  return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x2000 && code <= 0x200a) ||
         std::ranges::find(others, code) != others.end();
}

}  // namespace accrue
