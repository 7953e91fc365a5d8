#pragma once

#include <filesystem>
#include <string>

#include "core/inside.h"

namespace accrue {

// A directory that is built beside its destination; commit() moves it into place. Without commit(),
// the destructor removes it.
class NewDirectory {
 public:
  // Throws Error if the destination exists and is not empty.
  explicit NewDirectory(const std::string& name);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Adds a file. It is durable only after commit(), which synchronizes all files together.
  void write(const std::filesystem::path& file, const std::string& content) const;
  void commit();

 private:
  std::filesystem::path destination_, path_;
  bool made_ = false;
};

// Makes a directory and its parents. Throws Error if it cannot.
void make_directory(const std::filesystem::path& directory);

}  // namespace accrue
