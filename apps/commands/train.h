#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue train`: trains, reports, evaluates, saves. Throws Error.
void train(const Options& given);

}  // namespace accrue::app
