#include "fonts/characters.h"

#include <iconv.h>

#include <filesystem>
#include <span>
#include <unordered_set>

#include "core/error.h"
#include "data/byte_stream.h"
#include "fonts/glyphs.h"

namespace accrue::fonts {
namespace {

// Rows 0xb0 to 0xf7 of the code. The C library knows which of their cells have characters.
std::u32string gb2312_characters() {
  const iconv_t converter = ::iconv_open("UTF-8", "GB2312");
  // NOLINTNEXTLINE: iconv_open() returns -1 as a pointer
  check(converter != reinterpret_cast<iconv_t>(-1),
        "the C library does not know GB2312 (Debian: libc6, or libc-gconv-modules-extra); give the "
        "characters as a file of UTF-8");
  std::string text;
  for (int row = 0xb0; row <= 0xf7; ++row)
    for (int cell = 0xa1; cell <= 0xfe; ++cell) {
      char code[2] = {static_cast<char>(row), static_cast<char>(cell)}, utf8[8];
      char *in = code, *out = utf8;
      size_t left = sizeof code, room = sizeof utf8;
      if (::iconv(converter, &in, &left, &out, &room) == 0) text.append(utf8, sizeof utf8 - room);
      else ::iconv(converter, nullptr, nullptr, nullptr, nullptr);  // resets the state
    }
  ::iconv_close(converter);
  return from_utf8(text);
}

// True also for characters without width.
bool is_space(char32_t code) {
  for (const auto& [first, last] :
       std::initializer_list<std::pair<char32_t, char32_t>>{{0, 0x20},
                                                            {0x7f, 0xa0},
                                                            {0x1680, 0x1680},
                                                            {0x2000, 0x200f},
                                                            {0x2028, 0x202f},
                                                            {0x205f, 0x2064},
                                                            {0x3000, 0x3000},
                                                            {0xfeff, 0xfeff}})
    if (code >= first && code <= last) return true;
  return false;
}

// A mistyped name of a file would otherwise be taken for the characters to draw.
bool looks_like_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".txt");
}

std::string text_of_file(const std::string& path) {
  constexpr uint64_t most_bytes = 64 << 20;
  InputFile file(path);
  check(file.size() <= most_bytes, "'{}' is too large for a list of characters: {} bytes", path,
        file.size());
  std::string text(file.size(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

std::u32string characters_of(const std::string& text) {
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(text, ignored) || looks_like_file(text);
  std::u32string all;
  try {
    all = text == "gb2312" ? gb2312_characters() : from_utf8(is_file ? text_of_file(text) : text);
  } catch (const Error& error) {
    fail("the characters '{:.60}' cannot be used: {}", text, error.what());
  }
  std::u32string characters;
  std::unordered_set<char32_t> seen;
  for (const char32_t code : all)
    if (!is_space(code) && seen.insert(code).second) characters += code;
  check(!characters.empty(),
        "there are no characters in '{:.60}': expected gb2312, the name of a "
        "file with them in UTF-8, or the characters themselves",
        text);
  return characters;
}

}  // namespace accrue::fonts
