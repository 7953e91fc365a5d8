#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/inside.h"
#include "train/domain.h"
#include "train/settings.h"

namespace accrue {

// What a command reads and writes, so that nothing is written over what it reads, and nothing over
// anything else that it writes, however the paths are spelt.
class Paths {
 public:
  // A file, or a folder with all that is in it; nothing if there is none.
  void read(std::string what, const std::filesystem::path& path);
  void write(std::string what, const std::filesystem::path& path, Path kind);

  // Throws Error, with both, where an output would replace an input or another output, or would be
  // taken for a part of the data.
  void refuse_overwriting() const;

  // Throws Error if two of the answers to samples would be one file, if one would replace a file
  // that is read, or, unless `force`, one that the program has not written.
  void check_answers(const std::string& what, const std::vector<std::filesystem::path>& answers,
                     bool force) const;

  using FileId = std::pair<dev_t, ino_t>;  // of a file, whatever its names

 private:
  struct Named {
    std::string what;  // "--save w.safetensors"
    std::filesystem::path path;
    Path kind = Path::file;
  };
  void check_each_other() const;
  void check_inputs() const;
  void check_not_read(const std::string& what, const std::set<FileId>& files) const;

  std::vector<Named> inputs_, outputs_;
};

// Adds the paths that settings name.
void add_paths(Paths& paths, const Settings& settings, const Domains& domains);

}  // namespace accrue
