#pragma once

#include "job/request.h"

namespace accrue::app {

struct InfoOptions {
  double seconds_to_time = 0;  // for timing convolutions; 0: does not time them
};

// The settings of info that are not settings of a training.
Settings settings_of(InfoOptions& asked, Request& options);

// The settings of a training that change the output of info.
Settings heeded_by_info(const Settings& training);

// `accrue info`: prints the build, the machine and the parts of a model, and returns the same as
// JSON.
std::string info(const Request& options, const InfoOptions& asked);

}  // namespace accrue::app
