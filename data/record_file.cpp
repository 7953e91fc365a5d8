#include "data/record_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "record files are little-endian");

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ (remainder & 1 ? 0x82f63b78u : 0);
    table[byte] = remainder;
  }
  return table;
}

constexpr std::array<uint32_t, 256> table = make_table();

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

template <class Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

constexpr size_t frame_header_bytes = 12, frame_footer_bytes = 4;

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (const char c : bytes)
    remainder = remainder >> 8 ^ table[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  return ~remainder;
}

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

void append_record(AppendFile& file, std::string_view record) {
  const std::string length = bytes_of(uint64_t{record.size()});
  std::string piece = length + bytes_of(masked_crc32c(length));
  piece += record;
  piece += bytes_of(masked_crc32c(record));
  file.append(std::as_bytes(std::span(piece)));
}

Records read_records(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  check(file.is_open(), "cannot open '{}': expected a record file", path.string());
  std::ostringstream content;
  content << file.rdbuf();
  const std::string bytes = std::move(content).str();
  const std::string_view all = bytes;
  Records records;
  size_t at = 0;
  const auto require_crc = [&](std::string_view part, size_t crc_at, const char* what) {
    check(masked_crc32c(part) == number_at<uint32_t>(all, crc_at),
          "{}: the {} of the record at byte {} does not fit its checksum: the file is damaged",
          path.string(), what, at);
  };
  while (all.size() - at >= frame_header_bytes + frame_footer_bytes) {
    require_crc(all.substr(at, 8), at + 8, "length");
    const auto length = number_at<uint64_t>(all, at);
    if (length > all.size() - at - frame_header_bytes - frame_footer_bytes) break;
    const std::string_view record = all.substr(at + frame_header_bytes, length);
    require_crc(record, at + frame_header_bytes + length, "content");
    records.whole.emplace_back(record);
    at += frame_header_bytes + length + frame_footer_bytes;
  }
  records.torn_bytes = all.size() - at;
  return records;
}

}  // namespace accrue
