#pragma once

#include <string>

#include "job/request.h"
#include "train/plan.h"

namespace accrue {

// The settings to add to a request for it, as options: "--micro-batch 12 --effective-batch 64", and
// strategy and recompute where they are not those of the request.
std::string flags(const Alternative& alternative, const Request& request);

}  // namespace accrue
