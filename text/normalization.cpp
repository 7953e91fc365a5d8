#include "text/normalization.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "text/utf8.h"

namespace accrue {
namespace {

// U+0300 is the first character that may change, or change the one before it.
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
    // By lines, across which nothing is composed: utf8proc takes several times a text's memory.
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
  // By lines first, across which nothing is composed, so that little is composed again.
  for (size_t rest = bytes; low < text.size();) {
    const size_t line = std::min(text.find('\n', low), text.size() - 1) + 1 - low;
    const size_t made = composed(text.substr(low, line)).size();
    if (made <= rest) {
      rest -= made;
      low += line;
      continue;
    }
    // The first place from which no fewer bytes are made.
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
