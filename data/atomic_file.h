#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace accrue::detail {

// A file that appears complete or not at all. The content goes to a temporary file beside the
// destination, and commit() moves it into place. Without commit(), or after any failure, the
// destructor removes the temporary file and leaves the destination as it was. Every failure throws
// Error, which names the file, the step and the reason.
class AtomicFile {
 public:
  // Follows a symbolic link. Throws Error also if the destination exists and is not a regular file:
  // a device would be replaced instead of written to.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // fsync, rename over the destination, then fsync of the directory.
  void commit();

 private:
  [[noreturn]] void fail_at(const char* step) const;

  std::filesystem::path destination_, temporary_;
  int descriptor_ = -1;
};

// Throws Error, as AtomicFile does, if the file cannot be written. Call it before the work whose
// result the file will hold.
void check_writable(const std::filesystem::path& path);

// Makes the names in a directory durable by fsync. Throws Error.
void sync_directory(const std::filesystem::path& directory);

// Writes a whole text file through an AtomicFile.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace accrue::detail
