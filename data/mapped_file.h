#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace accrue::detail {

// A regular file, mapped into memory to be read: the system loads the parts that are touched and
// may drop them again, so that a file of any size takes no memory of its own.
// Throws Error as InputFile does (data/byte_stream.h). The file must not become shorter meanwhile;
// the system ends a process that reads what is gone. One that is replaced stays as it was.
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
