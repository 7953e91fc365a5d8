#pragma once

#include <vector>

#include "core/inside.h"
#include "job/job.h"

namespace accrue::app {

// The program's services for jobs: outputs may be standard output or pipes, and domains may observe
// the training.
JobServices services_for(const Request& request);

// `accrue train`: trains, reports, evaluates, saves. Throws Error.
void train(const Request& request);

}  // namespace accrue::app
