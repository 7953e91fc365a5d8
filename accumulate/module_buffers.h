#pragma once

#include "accumulate/decision.h"
#include "core/parameters.h"

namespace accrue::detail {

// The module buffers (BatchNorm's running statistics) of a window's parameters. Forward changes
// them in place, so what they were is kept beside them: a window that leaves no trace puts it back,
// as does, on the device, a step or a micro-batch that turns out not to count.
class ModuleBuffers {
 public:
  // With `drops_micro_batches`, they can also return to what the last micro-batch left.
  ModuleBuffers(const Parameters& parameters, bool drops_micro_batches);

  // What they are now is what they return to.
  void remember();
  void remember_for_micro_batch();
  // They return to what the last step left.
  void restore();
  // By the outcome in a window's state (settle_buffers() in decision.h): after a step, and after a
  // micro-batch that may have been dropped.
  void settle_step(const View& state);
  void settle_micro_batch(const View& state);

 private:
  Tensor buffers_, after_step_, after_micro_batch_;  // the copies are undefined if not wanted
};

}  // namespace accrue::detail
