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
#include "data/byte_stream.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-", temporary_prefix = ".accrue-checkpoint-";

// The number after the prefix; nothing if the name does not begin with it.
std::optional<int64_t> number_of(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

// The numbers of the checkpoints in a directory, in increasing order.
std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (const auto step = number_of(entry.path().filename().string(), step_prefix))
      found.push_back(*step);
  std::ranges::sort(found);
  return found;
}

fs::path checkpoint_of(const fs::path& directory, int64_t step) {
  return directory / fmt::format("{}{:08}", step_prefix, step);
}

// Runs `work` on the files of `directory` and throws Error if it fails.
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
  // On file systems without locks the directory is not locked.
  const bool taken = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  try {
    check(!taken, "another run writes its checkpoints to '{}': expected a directory of its own",
          path_.string());
    on_files(path_, "remove what a killed run left", [&] {
      for (const auto& entry : fs::directory_iterator(path_))
        if (number_of(entry.path().filename().string(), temporary_prefix))
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
  check(keep >= 1, "keeping {} checkpoints: expected 1 or more", keep);
  const fs::path made = temporary();
  try {
    on_files(path_, "write a checkpoint", [&] {
      fs::create_directory(made);
      write(made);
      make_way(step);
      fs::rename(made, at(step));
    });
    own_.insert(step);
    sync_directory(path_);
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove_all(made, ignored);
    fail("no checkpoint of step {} was written, earlier ones are unchanged: {}", step,
         error.what());
  }
  prune(step, keep);
}

// Renames the directory first, so that a half-removed one does not look like a checkpoint.
void CheckpointDirectory::remove(const fs::path& checkpoint) {
  const fs::path condemned = temporary();
  fs::rename(checkpoint, condemned);
  fs::remove_all(condemned);
}

void CheckpointDirectory::make_way(int64_t step) {
  if (!fs::exists(at(step))) return;
  if (own_.contains(step)) return remove(at(step));
  const std::string aside = at(step).string() + ".skipped";
  fs::path free = aside;
  for (int i = 2; fs::exists(free); ++i) free = fmt::format("{}-{}", aside, i);
  fs::rename(at(step), free);
}

void CheckpointDirectory::prune(int64_t newest, int64_t keep) {
  std::vector<int64_t> surplus(own_.begin(), own_.end());
  const auto later = std::ranges::upper_bound(surplus, newest);
  surplus.erase(later - std::min(keep, later - surplus.begin()), later);
  on_files(path_, "remove old checkpoints", [&] {
    for (const int64_t step : surplus) {
      if (fs::exists(at(step))) remove(at(step));
      own_.erase(step);
    }
  });
}

void CheckpointDirectory::adopt(const Metadata& decisive) {
  for (const int64_t step : steps()) try {
      if (read_checkpoint_record(at(step) / checkpoint_record).decisive == decisive)
        own_.insert(step);
    } catch (const Error&) {
      // It is damaged, or not a checkpoint.
    }
}

std::optional<CheckpointDirectory::Found> CheckpointDirectory::latest(
    const std::function<void(const std::string&)>& on_damaged) const {
  std::vector<int64_t> candidates = steps();
  std::ranges::reverse(candidates);
  std::string problems;
  for (const int64_t step : candidates) try {
      return Found{at(step), read_checkpoint(at(step))};
    } catch (const Unreadable& error) {
      fail(
          "'{}' may be whole or damaged: {}; make it readable, or move it elsewhere to resume "
          "from the one before it",
          at(step).string(), error.what());
    } catch (const Error& error) {
      on_damaged(error.what());
      problems += fmt::format("\n  {}", error.what());
    }
  check(problems.empty(), "no checkpoint in '{}' is whole:{}", path_.string(), problems);
  return std::nullopt;
}

fs::path detail::latest_weights_in(const fs::path& directory) {
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
      // Resuming will report the problem.
    }
  return {};
}

}  // namespace accrue
