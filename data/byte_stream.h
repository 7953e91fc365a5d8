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

// The error of a file that the system does not let us read (no permission, a failing disk). It says
// nothing about the file's content.
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
  // The size of the file in bytes.
  uint64_t size() const { return size_; }
  // The system's descriptor of the open file.
  int descriptor() const { return descriptor_; }
  // Fills `out` with the next bytes and returns their number, which is smaller than `out` only at
  // the end of the file. Throws Unreadable if the disk fails.
  size_t read(std::span<std::byte> out);
  // Skips `bytes` bytes.
  void skip(uint64_t bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Returns work(), which reads `what`. Throws Error, naming `what`, if the machine runs out of
// memory.
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

// Streams the content of a file in bounded memory. It inflates files that start with the gzip magic
// 1f 8b, whatever their name, and returns other files unchanged. Throws Error, naming the file and
// the offset, if a gzip file is truncated or corrupt, or is followed by anything but gzip or zeros.
class ByteStream {
 public:
  explicit ByteStream(const std::filesystem::path& path);
  ~ByteStream();

  const std::filesystem::path& path() const { return file_.path(); }
  bool is_gzip() const { return inflater_ != nullptr; }
  // The number of bytes of content read so far.
  uint64_t offset() const { return offset_; }
  // An upper bound of the size of the content: the file's size, or for gzip the most that deflate
  // can pack into that size.
  uint64_t max_content() const;
  // Fills `out` with the next bytes of content and returns their number, which is smaller than
  // `out` only at the end.
  size_t read(std::span<std::byte> out);
  // Fills all of `out`. Throws Error if the content ends before that; `what` names the data being
  // read.
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
