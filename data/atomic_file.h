#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace accrue::detail {

// A file that appears complete or not at all. It is written to a temporary file beside its
// destination, which commit() moves into place. Without commit(), or after any failure, the
// destructor leaves the destination as it was and no temporary file.
// Every failure throws Error, which names the file, the step and the reason.
class AtomicFile {
 public:
  // Throws Error also when the destination exists and is not a regular file (a device would be
  // replaced, not written to). A symbolic link is followed.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // fsync, rename over the destination, fsync of the directory.
  void commit();

 private:
  [[noreturn]] void fail_at(const char* step) const;

  std::filesystem::path destination_, temporary_;
  int descriptor_ = -1;
};

// Throws Error, as AtomicFile would, if a file cannot be written there. Call it before the work
// whose result the file is to hold.
void check_writable(const std::filesystem::path& path);

// fsync of a directory: the names in it are durable. Throws Error.
void sync_directory(const std::filesystem::path& directory);

// Writes a whole text file at once, by AtomicFile.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace accrue::detail
