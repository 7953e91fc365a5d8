#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue info`: the build, the machine, and what a model consists of.
void info(const Options& options);

}  // namespace accrue::app
