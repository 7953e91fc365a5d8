#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace accrue::detail {

// A regular file, mapped into memory for reading. The system loads the parts that are touched and
// may drop them again, so even a large file needs no memory of its own. Throws Error as InputFile
// does (data/byte_stream.h). The file must not shrink while it is mapped: the system ends a process
// that reads a missing part. If the file is replaced, the mapping keeps the old content.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace accrue::detail
