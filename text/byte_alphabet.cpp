#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace accrue {
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

}  // namespace accrue
