#pragma once

#include <optional>

#include "data/checkpoint_directory.h"
#include "train/observer.h"
#include "train/training.h"

namespace accrue::detail {

// The checkpoints of a run: this class decides what is in them and when they are written, and
// resumes from them. Without a directory there are none, and no function here does anything.
//
// A checkpoint holds all state that is carried from one window to the next, so that a run that goes
// on from it ends, bit for bit, like one that never stopped. Parameters and module buffers are its
// weights.safetensors; Window::state_dict() and what the training loop adds to it are the rest.
//
// Several ranks have the same state between two windows, or each its shard of some of it, which a
// checkpoint holds whole. Only the first has the directory: it writes for all, and sends the others
// the state that it resumes from. So resume(), save() and save_best() are for all ranks together.
class Checkpoints {
 public:
  // `loop` is the state of the training loop, and `scored` the data that it scores on its way.
  // Throws Error for a directory that cannot be used, and for one with checkpoints unless the run
  // is to go on from them.
  Checkpoints(const TrainingOptions& options, const Dataset& train, Training& training,
              StateDict loop, const Dataset* scored = nullptr);

  // If the options say so, restores everything from the latest whole checkpoint. Returns false if
  // there is none. For a checkpoint of another run, throws Error, which names each difference, and
  // changes nothing.
  bool resume(Observer& observer);
  // True if what it resumed from scored other data, so that its best score says nothing here. Where
  // scores decide the result, that is another run.
  bool has_scored_other_data() const { return scored_other_data_; }

  // True if enough steps have been enqueued since the last checkpoint for another.
  bool due() const;
  // Writes a checkpoint, unless one of this step has been written or resumed from (windows skipped
  // since are skipped again after it). Call this between two windows, with all steps reported.
  // Throws Error if it cannot be written, and Divergence if it holds a value that is not finite;
  // the earlier ones are then as they were.
  void save();
  // Writes one beside them, DIR/best, in place of the best one before.
  void save_best();

 private:
  // The first rank's; nothing on others.
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
