#pragma once

#include "apps/options.h"

namespace accrue::app {

// `accrue info`: the build, the machine, and what a model consists of.
void info(const TrainOptions& options);

}  // namespace accrue::app
