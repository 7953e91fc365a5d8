#include "data/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

AppendFile::AppendFile(const std::filesystem::path& path, Existing existing) : path_(path) {
  const int if_it_exists = existing == Existing::refused ? O_EXCL : 0;
  descriptor_ =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | if_it_exists, 0666);
  check(descriptor_ >= 0, "cannot open '{}' to append to it: {}", path.string(),
        std::strerror(errno));
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const ssize_t n = ::write(descriptor_, piece.data(), piece.size());
    if (n >= 0) piece = piece.subspan(static_cast<size_t>(n));
    else if (errno != EINTR)
      fail("cannot append to '{}': {}{}; what it held before is intact", path_.string(),
           std::strerror(errno), errno == ENOSPC ? " (free some space, or log elsewhere)" : "");
  }
}

}  // namespace accrue
