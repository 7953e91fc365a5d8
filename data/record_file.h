#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"
#include "data/append_file.h"

namespace accrue {

// CRC-32C (Castagnoli, RFC 3720 appendix B.4), and its masked form in TFRecord files. Rotating it
// and adding an offset keeps it useful for data that itself contains checksums.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// Appends a record in the format of TensorFlow's record files
// (tensorflow/core/lib/io/record_writer.h), with little-endian numbers:
//   uint64 length, uint32 masked_crc32c(length), length bytes, uint32 masked_crc32c(bytes).
void append_record(AppendFile& file, std::string_view record);

struct Records {
  std::vector<std::string> whole;
  // Bytes after the last whole record, of a record that was cut off when its writer died.
  size_t torn_bytes = 0;
};
// Reads a file of records. Throws Error, with the offset, if a record does not match its checksums.
Records read_records(const std::filesystem::path& path);

}  // namespace accrue
