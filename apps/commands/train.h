#pragma once

#include <vector>

#include "core/inside.h"
#include "job/job.h"

namespace accrue::app {

// What the program does for jobs: outputs may be standard output and pipes, and domains watch.
JobServices services_for(const Request& request);

// `accrue train`: trains, reports, evaluates, saves. Throws Error.
void train(const Request& request);

}  // namespace accrue::app
