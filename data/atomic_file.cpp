#include "data/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Follows a symbolic link to its file, so that the link stays a link.
fs::path resolve(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : destination_(resolve(path)) {
  static std::atomic<unsigned> counter{0};
  std::error_code error;
  const fs::file_status status = fs::status(destination_, error);
  check(destination_.has_filename() && (!fs::exists(status) || fs::is_regular_file(status)),
        "cannot write '{}': it is {}, expected the name of a file", path.string(),
        fs::is_directory(status) ? "a directory" : "not a regular file");
  do {  // a killed process with the same id may have left such a file
    temporary_ =
        directory_of(destination_) / fmt::format(".accrue-{}-{}.tmp", ::getpid(), counter++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_at("creating a temporary file beside it");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail_at(const char* step) const {
  const int error = errno;
  fail("cannot write '{}': {} failed: {}{}; the file was left as it was", destination_.string(),
       step, std::strerror(error),
       error == ENOSPC  ? " (the disk is full)"
       : error == EFBIG ? " (ulimit -f says how large a file may be)"
                        : "");
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n >= 0) bytes = bytes.subspan(static_cast<size_t>(n));
    else if (errno != EINTR) fail_at("writing");
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_at("fsync");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_at("closing");
  if (std::rename(temporary_.c_str(), destination_.c_str()) != 0) fail_at("renaming");
  temporary_.clear();
  sync_directory(directory_of(destination_));
}

void detail::sync_directory(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // EINVAL: this file system cannot sync a directory and does not need to.
  const bool synced = descriptor >= 0 && (::fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  check(synced, "what was written to '{}' is complete, but fsync of the directory failed: {}",
        directory.string(), std::strerror(error));
}

void detail::check_writable(const fs::path& path) { const AtomicFile never_committed(path); }

void detail::write_text_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace accrue
