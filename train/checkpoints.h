#pragma once

#include <optional>

#include "data/checkpoint_directory.h"
#include "train/observer.h"
#include "train/training.h"

namespace accrue::detail {

// The checkpoints of a run: this class decides what is in them and when they are written, and
// resumes from them. Without a directory there are none, and all functions here do nothing.
//
// A checkpoint holds all state that is carried from one window to the next, so that a run that
// resumes from it ends, bit for bit, like one that never stopped. Parameters and module buffers are
// in its weights.safetensors. The rest is Window::state_dict() and the state of the training loop.
//
// Between two windows, several ranks have the same state, except that each may have only its shard
// of some tensors; a checkpoint holds these whole. Only the first rank has the directory: it writes
// for all, and sends the others the state that it resumes from. So call resume(), save() and
// save_best() on all ranks together.
class Checkpoints {
 public:
  // `loop` is the state of the training loop, and `scored` the data that it scores during the run.
  // Throws Error for a directory that cannot be used, and for one that has checkpoints unless the
  // run is to resume from them.
  Checkpoints(const TrainingOptions& options, const Dataset& train, Training& training,
              StateDict loop, const Dataset* scored = nullptr);

  // If the options say so, restores everything from the latest whole checkpoint. Returns false if
  // there is none. For a checkpoint of another run, throws an Error that names each difference, and
  // changes nothing.
  bool resume(Observer& observer);
  // True if the checkpoint's run scored other data, so that its best score cannot be compared here.
  // If scores decide the result, resume() refuses such a checkpoint as another run's.
  bool has_scored_other_data() const { return scored_other_data_; }

  // True if enough steps have been enqueued since the last checkpoint to write another.
  bool due() const;
  // Writes a checkpoint, unless one of this step has been written or resumed from (windows skipped
  // since then will be skipped again). Call this between two windows, with all steps reported.
  // Throws Error if it cannot be written, and Divergence if it holds a value that is not finite;
  // earlier checkpoints then remain unchanged.
  void save();
  // Writes a checkpoint, whatever has been written.
  void save_now() { write(directory_, options_.keep_last); }
  // Writes a checkpoint to DIR/best, beside the others, replacing the best one so far.
  void save_best();

 private:
  // The checkpoint that the first rank finds; nothing on other ranks.
  std::optional<CheckpointDirectory::Found> find(Observer& observer);
  void check_finite(const NamedTensors& tensors) const;
  void write(std::optional<CheckpointDirectory>& directory, int64_t keep) const;
  StateDict state() const;
  CheckpointRecord record(const StateDict& state) const;
  void check_same_run(const CheckpointDirectory::Found& checkpoint);
  void restore(const std::optional<CheckpointDirectory::Found>& found);

  Training& training_;
  const StateDict loop_;
  const CheckpointOptions options_;
  const Metadata about_weights_;
  Ranks* const ranks_;
  std::optional<CheckpointDirectory> directory_, best_;
  RunIdentity identity_;
  const bool scores_decide_;
  bool scored_other_data_ = false;
  int64_t saved_ = 0;  // the step of the latest checkpoint
};

}  // namespace accrue::detail
