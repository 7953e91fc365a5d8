#include "data/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/error.h"
#include "data/atomic_file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-", temporary_prefix = ".accrue-checkpoint-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const char *begin = name.data() + step_prefix.size(), *end = name.data() + name.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

// The numbers of the checkpoints in a directory, in rising order.
std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (const auto step = step_of(entry.path().filename().string())) found.push_back(*step);
  std::ranges::sort(found);
  return found;
}

fs::path checkpoint_of(const fs::path& directory, int64_t step) {
  return directory / fmt::format("{}{:08}", step_prefix, step);
}

// Throws Error where `work`, on the files of `directory`, fails.
template <class Work>
void on_files(const fs::path& directory, const char* what, Work&& work) {
  try {
    work();
  } catch (const fs::filesystem_error& error) {
    fail("cannot {} in the checkpoint directory '{}': {}", what, directory.string(),
         error.code().message());
  }
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(fs::path directory) : path_(std::move(directory)) {
  on_files(path_, "make directories", [&] { fs::create_directories(path_); });
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(descriptor_ >= 0, "cannot open the checkpoint directory '{}': {}", path_.string(),
        std::strerror(errno));
  // File systems that know no locks are left without.
  const bool taken = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  try {
    check(!taken, "another run writes its checkpoints to '{}': expected a directory of its own",
          path_.string());
    on_files(path_, "remove what a killed run left", [&] {
      for (const auto& entry : fs::directory_iterator(path_))
        if (entry.path().filename().string().starts_with(temporary_prefix))
          fs::remove_all(entry.path());
    });
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

CheckpointDirectory::~CheckpointDirectory() { ::close(descriptor_); }

fs::path CheckpointDirectory::at(int64_t step) const { return checkpoint_of(path_, step); }

std::vector<int64_t> CheckpointDirectory::steps() const {
  std::vector<int64_t> found;
  on_files(path_, "look for checkpoints", [&] { found = steps_in(path_); });
  return found;
}

fs::path CheckpointDirectory::temporary() {
  return path_ / fmt::format("{}{}", temporary_prefix, temporaries_++);
}

void CheckpointDirectory::add(int64_t step, int64_t keep,
                              const std::function<void(const fs::path&)>& write) {
  check(keep >= 1, "{} checkpoints are to be kept: expected 1 or more", keep);
  const fs::path made = temporary();
  try {
    on_files(path_, "write a checkpoint", [&] {
      fs::create_directory(made);
      write(made);
      if (fs::exists(at(step))) remove(at(step));
      fs::rename(made, at(step));
    });
    sync_directory(path_);
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove_all(made, ignored);
    fail("no checkpoint of step {} was written, those before it are as they were: {}", step,
         error.what());
  }
  prune(step, keep);
}

// Under another name first, so that no half-removed one looks like a checkpoint.
void CheckpointDirectory::remove(const fs::path& checkpoint) {
  const fs::path condemned = temporary();
  fs::rename(checkpoint, condemned);
  fs::remove_all(condemned);
}

void CheckpointDirectory::prune(int64_t newest, int64_t keep) {
  std::vector<int64_t> kept = steps();
  std::erase_if(kept, [&](int64_t step) { return step > newest; });
  const auto surplus = static_cast<int64_t>(kept.size()) - keep;
  if (surplus > 0) kept.erase(kept.begin(), kept.begin() + surplus);
  on_files(path_, "remove old checkpoints", [&] {
    for (const int64_t step : steps())
      if (!std::ranges::binary_search(kept, step)) remove(at(step));
  });
}

std::optional<CheckpointDirectory::Found> CheckpointDirectory::latest(
    const std::function<void(const std::string&)>& on_damaged) const {
  std::vector<int64_t> candidates = steps();
  std::ranges::reverse(candidates);
  std::string problems;
  for (const int64_t step : candidates) try {
      return Found{at(step), read_checkpoint(at(step))};
    } catch (const Error& error) {
      on_damaged(error.what());
      problems += fmt::format("\n  {}", error.what());
    }
  check(problems.empty(), "no checkpoint in '{}' is whole:{}", path_.string(), problems);
  return std::nullopt;
}

fs::path latest_weights_in(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return {};
  std::vector<int64_t> steps;
  on_files(directory, "look for checkpoints", [&] { steps = steps_in(directory); });
  std::ranges::reverse(steps);
  for (const int64_t step : steps) try {
      const fs::path weights = checkpoint_of(directory, step) / checkpoint_weights;
      read_safetensors_metadata(weights);
      return weights;
    } catch (const Error&) {
      // Whoever resumes says what is wrong with it.
    }
  return {};
}

}  // namespace accrue
