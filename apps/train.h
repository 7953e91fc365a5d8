#pragma once

#include "apps/options.h"

namespace accrue::app {

// `accrue train`: trains, reports, evaluates, saves. Throws Error.
void train(const TrainOptions& options);

}  // namespace accrue::app
