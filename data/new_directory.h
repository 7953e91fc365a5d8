#pragma once

#include <filesystem>
#include <string>

#include "core/inside.h"

namespace accrue {

// A directory that is made beside its destination and moved into place by commit() when it is
// complete. Without commit(), the destructor leaves nothing behind.
class NewDirectory {
 public:
  // Throws Error if the destination exists with something in it.
  explicit NewDirectory(const std::string& name);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Adds a file. Its content is on the disk only after commit(), which waits once for all files.
  void write(const std::filesystem::path& file, const std::string& content) const;
  void commit();

 private:
  std::filesystem::path destination_, path_;
  bool made_ = false;
};

// Makes a directory and those above it. Throws Error if it cannot.
void make_directory(const std::filesystem::path& directory);

}  // namespace accrue
