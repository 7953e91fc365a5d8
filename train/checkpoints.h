#pragma once

#include <optional>

#include "data/checkpoint_directory.h"
#include "train/observer.h"
#include "train/training.h"

namespace accrue {

// The checkpoints of a run: what is in them, when they are written, and how to go on from one.
// Without a directory there are none, and nothing here does anything.
//
// A checkpoint holds what is carried from one window to the next, so that a run that goes on from
// it ends, bit for bit, like one that never stopped. Parameters and module buffers are its
// weights.safetensors; Window::state_dict() and what the training loop adds to it are the rest.
//
// Several ranks have the same state between two windows. The first alone has the directory: it
// writes for all, and sends the others what it resumes from.
class Checkpoints {
 public:
  // `loop` is what the training loop carries. Throws Error for a directory that cannot be used, and
  // for one with checkpoints unless the run is to go on from them.
  Checkpoints(const TrainingOptions& options, const Dataset& train, Training& training,
              StateDict loop);

  // If the options say so, puts everything back as the latest whole checkpoint has it. False if
  // there is none. Throws Error, with everything as it was, for a checkpoint of another run, with
  // each difference named.
  bool resume(Observer& observer);

  // True if as many steps as lie between two checkpoints are enqueued.
  bool due() const;
  // Writes a checkpoint, unless one of this step has been written or resumed from (windows skipped
  // since are skipped again after it). Between two windows, all steps reported. Throws Error if it
  // cannot be written, and Divergence if it holds a value that is not finite, with the earlier ones
  // as they were.
  void save();
  // Writes one beside them, in the place of the one that was the best before: DIR/best.
  void save_best();

 private:
  // On this rank.
  bool find(Observer& observer);
  void write(CheckpointDirectory& directory, int64_t keep) const;
  StateDict state() const;
  CheckpointRecord record(const StateDict& state) const;
  void check_same_run(const CheckpointDirectory::Found& checkpoint) const;
  void restore(const CheckpointDirectory::Found& checkpoint);

  Training& training_;
  const StateDict loop_;
  const CheckpointOptions options_;
  const Metadata about_weights_;
  Ranks* const ranks_;
  std::optional<CheckpointDirectory> directory_, best_;
  Metadata identity_;
  int64_t saved_ = 0;  // the step of the latest checkpoint
};

}  // namespace accrue
