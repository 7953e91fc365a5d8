#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "data/checkpoint.h"

namespace accrue::detail {

// The checkpoints of one run: D/step-00000100 and so on, each a directory (data/checkpoint.h) that
// appears complete and durable, or not at all. While this is alive, no other process can have D.
class CheckpointDirectory {
 public:
  // Makes D if it is missing, and removes what killed writes have left in it. Throws Error if that
  // cannot be done, and if another process has D.
  explicit CheckpointDirectory(std::filesystem::path directory);
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path at(int64_t step) const;
  // The steps that have a checkpoint, whole or damaged, in rising order.
  std::vector<int64_t> steps() const;

  // Takes the checkpoints that an earlier part of this run has written for its own: those with
  // these settings that decide the result.
  void adopt(const Metadata& decisive);

  // Writes the files of a checkpoint by write(directory), beside their place; then moves them
  // there, replacing the run's own of the same step, and makes that durable; then removes the run's
  // own of later steps and all of its own but the latest `keep`. What is not its own, such as a
  // damaged checkpoint that resuming passed over, stays; if it is in the way, it is renamed to
  // step-N.skipped. If it throws Error, the earlier checkpoints are as they were.
  void add(int64_t step, int64_t keep,
           const std::function<void(const std::filesystem::path& directory)>& write);

  struct Found {
    std::filesystem::path directory;
    CheckpointRecord record;
  };
  // Returns the latest whole checkpoint; nothing if there is none of any kind. Calls
  // on_damaged(reason) for each damaged one that it passes over. Throws Error with the reasons if
  // all are damaged, and for one that cannot be read, which may be whole.
  std::optional<Found> latest(const std::function<void(const std::string&)>& on_damaged) const;

 private:
  std::filesystem::path temporary();
  void remove(const std::filesystem::path& checkpoint);
  void make_way(int64_t step);
  void prune(int64_t newest, int64_t keep);

  std::filesystem::path path_;
  std::set<int64_t> own_;  // the steps of which this run has written a checkpoint
  int descriptor_ = -1;
  int temporaries_ = 0;
};

// The weights of the latest checkpoint in a directory whose metadata can be read, for what they
// say; empty if there is none. Takes no lock and does not look whether the checkpoint is whole.
std::filesystem::path latest_weights_in(const std::filesystem::path& directory);

}  // namespace accrue::detail
