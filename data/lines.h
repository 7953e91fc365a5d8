#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/byte_stream.h"

namespace accrue {

// Reads the lines of a text in UTF-8, plain or compressed by gzip. Lines may end in CR LF. Throws
// Error as ByteStream does, and for UTF-16.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : stream_(path) {}

  // Puts the next line into `line`, without its end. Returns false at the end of the text.
  bool next(std::string& line);
  // "'file', line 3"
  std::string here() const;

 private:
  void end(std::string& line);

  ByteStream stream_;
  std::array<char, 4096> buffer_;
  size_t used_ = 0, size_ = 0;
  int64_t number_ = 0;
};

// Removes a UTF-8 byte order mark from the start of a text. Throws Error, naming the file, for a
// UTF-16 mark.
void take_utf8_mark(std::string& text, const std::filesystem::path& path);

}  // namespace accrue
