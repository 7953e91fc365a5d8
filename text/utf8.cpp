#include "text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/inside.h"

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
  // Letters in circles and squares, which are alphabetic, and the joiners U+200C and U+200D.
  return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189) ||
         code == 0x200c || code == 0x200d;
}

bool is_white_space(uint32_t code) {
  constexpr std::array others{0x85u, 0xa0u, 0x1680u, 0x2028u, 0x2029u, 0x202fu, 0x205fu, 0x3000u};
  return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x2000 && code <= 0x200a) ||
         std::ranges::find(others, code) != others.end();
}

namespace {

constexpr uint32_t first_stand_in = 0x100, last_stand_in = 0x143;

bool is_printable(uint32_t byte) {
  return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad && byte < 0x100);
}

struct Alphabet {
  Alphabet() {
    uint32_t next = first_stand_in;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t character = is_printable(byte) ? byte : next++;
      if (character >= first_stand_in) stood_in_for[character - first_stand_in] = char(byte);
      append_utf8(spellings[byte], character);
    }
  }

  std::array<std::string, 256> spellings;
  std::array<char, last_stand_in - first_stand_in + 1> stood_in_for;
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string spelling_of(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) spelling += alphabet().spellings[static_cast<unsigned char>(byte)];
  return spelling;
}

std::optional<std::string> bytes_spelled(std::string_view spelling) {
  std::string bytes;
  while (!spelling.empty()) {
    const Character next = first_character(spelling);
    if (next.bytes == 0 || next.code > last_stand_in) return std::nullopt;
    if (next.code >= first_stand_in) bytes += alphabet().stood_in_for[next.code - first_stand_in];
    else if (is_printable(next.code)) bytes += static_cast<char>(next.code);
    else return std::nullopt;
    spelling.remove_prefix(next.bytes);
  }
  return bytes;
}

namespace {

// U+0300 is the first character that may change, or may change the one before it.
bool may_change(std::string_view text) {
  return std::ranges::any_of(text,
                             [](char byte) { return static_cast<unsigned char>(byte) >= 0xcc; });
}

void append_composed(std::string& out, std::string_view valid) {
  if (!may_change(valid)) {
    out += valid;
    return;
  }
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                   static_cast<utf8proc_ssize_t>(valid.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, std::free);
  check(bytes >= 0, "utf8proc cannot compose a text: {}", utf8proc_errmsg(bytes));
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(bytes));
}

}  // namespace

std::string composed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    // Line by line, because utf8proc takes several times the memory of its text. Nothing is
    // composed across lines.
    const size_t line = std::min(text.find('\n'), text.size() - 1) + 1;
    const size_t valid = valid_utf8_bytes(text.substr(0, line));
    append_composed(out, text.substr(0, valid));
    if (valid < line) out += text[valid];
    text.remove_prefix(std::min(line, valid + 1));
  }
  return out;
}

std::string_view before_last_ascii(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && static_cast<unsigned char>(text[end - 1]) >= 0x80) --end;
  return text.substr(0, std::max<size_t>(end, 1) - 1);
}

std::optional<size_t> bytes_composed_to(std::string_view text, std::string_view all, size_t bytes) {
  if (text == all) return bytes;
  size_t low = 0;
  // Skips whole lines first: nothing is composed across lines, and less text is composed again.
  for (size_t rest = bytes; low < text.size();) {
    const size_t line = std::min(text.find('\n', low), text.size() - 1) + 1 - low;
    const size_t made = composed(text.substr(low, line)).size();
    if (made <= rest) {
      rest -= made;
      low += line;
      continue;
    }
    // The shortest beginning that becomes at least `rest` bytes.
    size_t least = 0, most = line;
    while (least < most) {
      const size_t middle = least + (most - least) / 2;
      if (composed(text.substr(low, middle)).size() < rest) least = middle + 1;
      else most = middle;
    }
    const std::string_view first = text.substr(low, least);
    const bool is_apart = composed(first) + composed(text.substr(low + least, line - least)) ==
                          all.substr(bytes - rest, made);
    return is_apart && composed(first).size() == rest ? std::optional(low + least) : std::nullopt;
  }
  return low;
}

}  // namespace accrue
