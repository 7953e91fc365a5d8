#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace accrue {

// A file that grows by whole pieces. One call hands a piece to the system, so that nothing of it is
// lost when the process dies. A full disk or a power failure may cut off the last piece.
// Every failure throws Error, which names the file and the reason.
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
