#pragma once

#include <memory>

#include "job/notices.h"
#include "job/request.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue {

// Keeps an eye on a generator in training. Every --sample-every windows it has the first characters
// that were held out drawn, as a sheet DIR/samples/window-000100.png in the log's directory and in
// TensorBoard; and it warns where the discriminator has won and where the generator draws blank
// pages. The data set that is held out is on the cpu. Throws Error if there is no directory to draw
// into.
std::unique_ptr<Observer> watch_drawings(const Request& options, Trainer& trainer, RunLog& log,
                                         const Dataset& held_out, const Notices& notices);

}  // namespace accrue
