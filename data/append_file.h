#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace accrue {

// A file to which whole pieces are appended. Each append() passes one piece to the system in one
// go, so the piece survives if the process dies. A full disk or a power failure may cut off the
// last piece. Every failure throws Error, which names the file and the reason.
class AppendFile {
 public:
  enum class Existing { refused, continued };
  AppendFile(const std::filesystem::path& path, Existing existing);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::span<const std::byte> piece);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace accrue
