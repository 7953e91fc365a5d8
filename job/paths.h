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

// The files and folders that a command reads and writes. Checks that no output replaces an input or
// another output, even if the same path is spelled differently.
class Paths {
 public:
  // Adds an input: a file, or a folder with everything in it. Ignores a path that does not exist.
  void read(std::string what, const std::filesystem::path& path);
  void write(std::string what, const std::filesystem::path& path, Path kind);

  // Throws Error, with both paths, where an output would replace an input or another output, or
  // would later be read as part of the data.
  void refuse_overwriting() const;

  // Throws Error if two samples' answers would go to the same file, or if an answer would replace a
  // file that is read. Unless `force`, throws Error also if an answer would replace a file that
  // this program has not written.
  void check_answers(const std::string& what, const std::vector<std::filesystem::path>& answers,
                     bool force) const;

  using FileId = std::pair<dev_t, ino_t>;  // the same for all names of a file

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

// Adds the paths in the values of settings.
void add_paths(Paths& paths, const Settings& settings, const Domains& domains);

}  // namespace accrue
