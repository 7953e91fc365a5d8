#pragma once

#include "accumulate/decision.h"
#include "core/parameters.h"

namespace accrue::detail {

// The module buffers (BatchNorm's running statistics) of a window's parameters. Forward changes
// them in place, so this keeps a copy. They return to the copy if the window is abandoned, or if
// the device decides that a step or a micro-batch does not count.
class ModuleBuffers {
 public:
  // With `drops_micro_batches`, they can also return to their values after the last micro-batch.
  ModuleBuffers(const Parameters& parameters, bool drops_micro_batches);

  // Makes the present values the ones that restore() returns to.
  void remember();
  void remember_for_micro_batch();
  // Returns to the values after the last step.
  void restore();
  // Keep or restore the values by the outcome in a window's state (settle_buffers() in decision.h):
  // after a step, and after a micro-batch that may have been dropped.
  void settle_step(const View& state);
  void settle_micro_batch(const View& state);

 private:
  Tensor buffers_, after_step_, after_micro_batch_;  // the copies are undefined if not needed
};

}  // namespace accrue::detail
