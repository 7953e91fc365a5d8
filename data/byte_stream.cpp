#include "data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace accrue {
namespace {

// Throws Unreadable for a file that exists but cannot be read.
[[noreturn]] void fail_to_read(const std::filesystem::path& path, int reason) {
  throw Unreadable(fmt::format("cannot read '{}': {}", path.string(), std::strerror(reason)));
}

constexpr size_t buffer_bytes = 1 << 16;
// deflate codes at most 258 bytes in 2 bits (zlib, "Technical details": 1032 to 1).
constexpr uint64_t max_inflation = 1032;

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe without a writer must fail below, not wait.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int reason = errno;
    const std::string message =
        fmt::format("cannot open '{}': {}; check the path and its permissions", path_.string(),
                    std::strerror(reason));
    if (reason == ENOENT || reason == ENOTDIR) throw Error(message);
    throw Unreadable(message);
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  size_ = static_cast<uint64_t>(status.st_size);
  std::string problem;
  if (!known) problem = std::strerror(errno);
  else if (S_ISDIR(status.st_mode)) problem = "it is a directory, expected a file";
  else if (!S_ISREG(status.st_mode)) problem = "it is not a regular file";
  else if (size_ == 0) problem = "the file is empty; copy or download it again";
  if (problem.empty()) return;
  ::close(descriptor_);
  fail("cannot read '{}': {}", path_.string(), problem);
}

InputFile::~InputFile() { ::close(descriptor_); }

size_t InputFile::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::read(descriptor_, out.data() + done, out.size() - done);
    if (n == 0) break;
    if (n > 0) done += static_cast<size_t>(n);
    else if (errno != EINTR) fail_to_read(path_, errno);
  }
  return done;
}

void InputFile::skip(uint64_t bytes) {
  if (::lseek(descriptor_, static_cast<off_t>(bytes), SEEK_CUR) < 0) fail_to_read(path_, errno);
}

std::vector<std::byte> file_content(const std::filesystem::path& path) {
  InputFile file(path);
  return reading(path.string(), [&] {
    std::vector<std::byte> content(file.size());
    content.resize(file.read(content));
    return content;
  });
}

struct ByteStream::Inflater {
  z_stream z{};
  uint64_t consumed = 0;  // in compressed bytes
  bool between_members = false;

  Inflater() {
    // 15 bits of window, + 16: expect a gzip header.
    check(inflateInit2(&z, 15 + 16) == Z_OK, "zlib cannot start: {}", z.msg ? z.msg : "no memory");
  }
  ~Inflater() { inflateEnd(&z); }
};

ByteStream::ByteStream(const std::filesystem::path& path)
    : file_(path), buffer_(std::make_unique<std::byte[]>(buffer_bytes)) {
  refill();
  if (pending_.size() >= 2 && pending_[0] == std::byte{0x1f} && pending_[1] == std::byte{0x8b})
    inflater_ = std::make_unique<Inflater>();
}

ByteStream::~ByteStream() = default;

uint64_t ByteStream::max_content() const {
  return is_gzip() ? file_.size() * max_inflation : file_.size();
}

void ByteStream::refill() { pending_ = {buffer_.get(), file_.read({buffer_.get(), buffer_bytes})}; }

size_t ByteStream::read(std::span<std::byte> out) {
  const size_t n = is_gzip() ? read_inflated(out) : read_plain(out);
  offset_ += n;
  return n;
}

size_t ByteStream::read_plain(std::span<std::byte> out) {
  const size_t buffered = std::min(out.size(), pending_.size());
  std::copy_n(pending_.begin(), buffered, out.begin());
  pending_ = pending_.subspan(buffered);
  return buffered + file_.read(out.subspan(buffered));
}

// Skips zeros that pad the file to a whole block, as tape drives and some file systems do.
void ByteStream::skip_padding() {
  for (; !pending_.empty(); refill()) {
    const auto end = std::ranges::find_if(pending_, [](std::byte b) { return b != std::byte{0}; });
    const auto zeros = static_cast<size_t>(end - pending_.begin());
    inflater_->consumed += zeros;
    pending_ = pending_.subspan(zeros);
    if (!pending_.empty()) return;
  }
}

size_t ByteStream::read_inflated(std::span<std::byte> out) {
  z_stream& z = inflater_->z;
  size_t done = 0;
  while (done < out.size()) {
    if (pending_.empty()) refill();
    if (inflater_->between_members) skip_padding();
    if (pending_.empty()) {
      check(inflater_->between_members,
            "'{}' is a truncated gzip file: it ends at byte {} in the middle of the compressed "
            "data, after {} bytes of content; copy or download it again",
            path().string(), file_.size(), offset_ + done);
      break;
    }
    if (std::exchange(inflater_->between_members, false)) inflateReset(&z);
    z.next_in = reinterpret_cast<Bytef*>(pending_.data());
    z.avail_in = static_cast<uInt>(pending_.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    z.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - done, 1u << 30));
    const uInt room = z.avail_out;
    const int status = inflate(&z, Z_NO_FLUSH);
    const size_t used = pending_.size() - z.avail_in;
    inflater_->consumed += used;
    pending_ = pending_.subspan(used);
    done += room - z.avail_out;
    check(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
          "'{}' is a corrupt gzip file: {} near byte {} of the file, after {} bytes of content; "
          "copy or download it again",
          path().string(), z.msg ? z.msg : "zlib failed", inflater_->consumed, offset_ + done);
    inflater_->between_members = status == Z_STREAM_END;
  }
  return done;
}

void ByteStream::read_exactly(std::span<std::byte> out, const std::string& what) {
  const uint64_t begin = offset_;
  const size_t n = read(out);
  check(n == out.size(),
        "'{}' ends too early: expected {} bytes of {} at offset {}{}, found {}; copy or download "
        "it again",
        path().string(), out.size(), what, begin, is_gzip() ? " of the inflated content" : "", n);
}

}  // namespace accrue
