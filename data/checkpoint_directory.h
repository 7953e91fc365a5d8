#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "data/checkpoint.h"

namespace accrue::detail {

// The checkpoints of one run: D/step-00000100 and so on. Each is a directory (data/checkpoint.h)
// that appears complete and durable, or not at all. While this object lives, no other process can
// lock D.
class CheckpointDirectory {
 public:
  // Makes D if it is missing, and removes temporary files of writers that were killed. Throws Error
  // if it cannot, and if another process has locked D.
  explicit CheckpointDirectory(std::filesystem::path directory);
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path at(int64_t step) const;
  // The steps that have a checkpoint, whole or damaged, in increasing order.
  std::vector<int64_t> steps() const;

  // Adopts the checkpoints whose settings that decide the result are `decisive`: an earlier part of
  // this run wrote them. From now on they belong to this run.
  void adopt(const Metadata& decisive);

  // Adds a checkpoint of a step: write(directory) writes its files into a temporary directory,
  // which is then moved into place and made durable. It replaces this run's own checkpoint of the
  // same step. Then add() removes the run's own checkpoints of later steps and all but its latest
  // `keep`. A checkpoint that does not belong to this run stays, such as a damaged one that
  // resuming passed over. If it has the same step, it is renamed to step-N.skipped. If add() throws
  // Error, the earlier checkpoints are as they were.
  void add(int64_t step, int64_t keep,
           const std::function<void(const std::filesystem::path& directory)>& write);

  struct Found {
    std::filesystem::path directory;
    CheckpointRecord record;
  };
  // Returns the latest whole checkpoint; empty if the directory has no checkpoint at all. Calls
  // on_damaged(reason) for each damaged one that it skips. Throws Error with the reasons if all are
  // damaged, and for one that cannot be read, because it may be whole.
  std::optional<Found> latest(const std::function<void(const std::string&)>& on_damaged) const;

 private:
  std::filesystem::path temporary();
  void remove(const std::filesystem::path& checkpoint);
  void make_way(int64_t step);
  void prune(int64_t newest, int64_t keep);

  std::filesystem::path path_;
  std::set<int64_t> own_;  // the steps whose checkpoints this run has written
  int descriptor_ = -1;
  int temporaries_ = 0;
};

// The weights of the latest checkpoint whose metadata can be read, to look at that metadata; empty
// if there is none. Takes no lock and does not check that the checkpoint is whole.
std::filesystem::path latest_weights_in(const std::filesystem::path& directory);

}  // namespace accrue::detail
