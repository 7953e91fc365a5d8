#include "data/new_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "data/atomic_file.h"

namespace accrue {

namespace fs = std::filesystem;

NewDirectory::NewDirectory(const std::string& name) {
  std::error_code problem;
  destination_ = fs::weakly_canonical(fs::absolute(name), problem);
  if (!destination_.has_filename()) destination_ = destination_.parent_path();
  const bool is_new = !problem && !fs::exists(destination_, problem);
  check(is_new || (fs::is_directory(destination_, problem) && fs::is_empty(destination_, problem) &&
                   !problem),
        "'{}' exists and is no empty directory; expected the name of a new one", name);
  for (int i = 0; !made_;
       ++i) {  // a killed process with the same id may have left such a directory
    path_ = destination_.parent_path() / fmt::format(".accrue-{}-{}.tmp", ::getpid(), i);
    made_ = fs::create_directory(path_, problem);
    check(!problem, "cannot make '{}': {}", name, problem.message());
  }
}

NewDirectory::~NewDirectory() {
  std::error_code ignored;
  if (made_) fs::remove_all(path_, ignored);
}

void NewDirectory::write(const fs::path& file, const std::string& content) const {
  std::ofstream stream(file, std::ios::binary);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  check(stream.good(), "cannot write '{}': {}", file.string(), std::strerror(errno));
}

void NewDirectory::commit() {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::syncfs(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  check(synced, "cannot make '{}': {}", destination_.string(), std::strerror(reason));
  std::error_code problem;
  fs::rename(path_, destination_, problem);
  check(!problem, "cannot make '{}': {}", destination_.string(), problem.message());
  made_ = false;
  sync_directory(destination_.parent_path());
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  check(!error, "{}: cannot make this directory: {}", directory.string(), error.message());
}

}  // namespace accrue
