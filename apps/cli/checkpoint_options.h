#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

// --checkpoint-dir, --checkpoint-every, --keep, --resume.
void add_checkpoint_options(CLI::App& command, Options& options);

}  // namespace accrue::app
