#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

// A file that the system does not let us read (no permission, a failing disk), which says nothing
// of what is in it.
class Unreadable : public Error {
 public:
  using Error::Error;
};

// A regular file opened for reading.
// Throws Error, naming the file, when it is missing, a directory or empty, and Unreadable when the
// system refuses it or the disk fails.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Bytes in the file.
  uint64_t size() const { return size_; }
  // The open file, as the system knows it.
  int descriptor() const { return descriptor_; }
  // Fills `out` with the next bytes, with fewer only at the end of the file, and returns their
  // number. Throws Unreadable on a failing disk.
  size_t read(std::span<std::byte> out);
  // Skips that many bytes.
  void skip(uint64_t bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Returns work(), which reads `what`. Throws Error, naming it, if the machine's memory does not
// suffice.
template <class Work>
auto reading(const std::string& what, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    fail("cannot read '{}': the machine has no more memory", what);
  }
}

// Returns all bytes of a file. Throws Error as InputFile does.
std::vector<std::byte> file_content(const std::filesystem::path& path);

// The content of a file, in order and in bounded memory: inflated if the file starts with the gzip
// magic 1f 8b, whatever its name, and else as it stands.
// Throws Error, naming the file and the offset, when a gzip file is truncated or corrupt, or is
// followed by something that is neither gzip nor zeros.
class ByteStream {
 public:
  explicit ByteStream(const std::filesystem::path& path);
  ~ByteStream();

  const std::filesystem::path& path() const { return file_.path(); }
  bool is_gzip() const { return inflater_ != nullptr; }
  // The number of bytes of content that have been read.
  uint64_t offset() const { return offset_; }
  // An upper bound of the file's content: its size, or the most that deflate can pack into that.
  uint64_t max_content() const;
  // Fills `out` with the next bytes of content, with fewer only at its end, and returns their
  // number.
  size_t read(std::span<std::byte> out);
  // Fills all of `out`. Throws Error if it cannot; `what` names the data that was being read.
  void read_exactly(std::span<std::byte> out, const std::string& what);

 private:
  struct Inflater;

  size_t read_plain(std::span<std::byte> out);
  size_t read_inflated(std::span<std::byte> out);
  void skip_padding();
  void refill();

  InputFile file_;
  std::unique_ptr<Inflater> inflater_;
  std::unique_ptr<std::byte[]> buffer_;
  std::span<std::byte> pending_;  // the part of the buffer that is not used yet
  uint64_t offset_ = 0;
};

}  // namespace accrue
