#pragma once

#include <limits>
#include <optional>

#include "train/observer.h"
#include "train/stop.h"
#include "train/training.h"

namespace accrue::detail {

// Ends a run that has stopped making progress: after `max_skipped` windows in a row were skipped
// that no smaller loss scale would have saved, or while the scale did not fall to half, with
// OnOverflow::stop at the first overflow, and after an epoch of windows without any weight.
class SkippedWindows {
 public:
  // Watches one of the players.
  SkippedWindows(Training& training, const TrainingOptions& options, const Dataset& data,
                 const Player& player);

  // Takes the reports in the order of the windows. Throws Divergence, which names the first
  // parameter or the first sample of the window that is not finite, and Error for data of which
  // nothing is judged.
  void see(const WindowReport& report);
  // At the end of a run. Throws Divergence likewise if the player has not taken a step, because no
  // window was finite.
  void end() const;
  // The part that see() changes.
  void add_state(StateDict& dict);

 private:
  // Says which part of the window is not finite: "0.weight is not finite", "the first sample with
  // such a result is number 17 of digits".
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
  int64_t last_window_ = 0;                   // that was seen
  std::optional<WindowReport> first_, last_;  // the first and last finite ones since this run began
  // The loss scale at which the count began; infinite after a window that was not skipped.
  double from_scale_ = std::numeric_limits<double>::infinity();
};

}  // namespace accrue::detail
