#pragma once

#include <limits>
#include <optional>

#include "train/observer.h"
#include "train/stop.h"
#include "train/training.h"

namespace accrue::detail {

// Ends a run that has stopped making progress: after `max_skipped` windows in a row that were
// skipped because the gradient or loss was not finite, and after an epoch of windows without any
// weight. The count restarts whenever a dynamic loss scale has halved. With OnOverflow::stop the
// run ends at the first overflow.
class SkippedWindows {
 public:
  // Watches one player.
  SkippedWindows(Training& training, const TrainingOptions& options, const Dataset& data,
                 const Player& player);

  // Takes reports in the order of the windows. Throws a Divergence that names the first parameter
  // that is not finite, or the window's first sample whose loss is not. Throws Error for data in
  // which no sample counts.
  void see(const WindowReport& report);
  // Call this at the end of a run. Throws the same Divergence if the player has never stepped
  // because no window was finite.
  void end() const;
  // Adds the state that see() changes.
  void add_state(StateDict& dict);

 private:
  // Says what is not finite: "0.weight is not finite", "the first sample with such a result is
  // number 17 of digits".
  std::string culprit(int64_t window) const;
  // Says why the run ends and what to do about it.
  std::string reason(int64_t window) const;
  std::string whose() const;

  Training& training_;
  const TrainingOptions& options_;
  const Dataset& data_;
  const Player& player_;
  const bool dynamic_scale_;
  int64_t in_a_row_ = 0, without_weight_ = 0;
  int64_t last_window_ = 0;                   // the last window that was seen
  std::optional<WindowReport> first_, last_;  // finite, since the process began
  // The loss scale when the count began; infinite after a window that was not skipped.
  double from_scale_ = std::numeric_limits<double>::infinity();
};

}  // namespace accrue::detail
