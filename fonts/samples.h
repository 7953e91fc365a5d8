#pragma once

#include <memory>

#include "job/notices.h"
#include "job/request.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue {

// Watches a generator in training. Every --sample-every windows the generator draws the first
// held-out characters as a sheet, DIR/samples/window-000100.png in the log's directory, and in
// TensorBoard. The observer warns if the discriminator has won, and if the generator draws blank
// pages. `held_out` is on the cpu. Throws Error if there is no directory to draw into.
std::unique_ptr<Observer> watch_drawings(const Request& options, Trainer& trainer, RunLog& log,
                                         const Dataset& held_out, const Notices& notices);

}  // namespace accrue
