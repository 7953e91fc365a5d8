#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/byte_stream.h"

namespace accrue {

// The lines of a text in UTF-8, which may end in CR LF, and which may be compressed by gzip.
// Throws Error as ByteStream does, and for UTF-16.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : stream_(path) {}

  // Puts the next line into `line`, without its end. Returns false where there is none.
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

// Takes the mark of UTF-8 from the start of a text. Throws Error, naming the file, for that of
// UTF-16.
void take_utf8_mark(std::string& text, const std::filesystem::path& path);

}  // namespace accrue
