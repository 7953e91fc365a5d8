#pragma once

#include "job/request.h"

namespace accrue::app {

struct InfoOptions {
  double seconds_to_time = 0;  // convolutions
};

// The settings of info beside those of a training.
Settings settings_of(InfoOptions& asked, Request& options);

// The settings of a training that have to do with what info prints.
Settings heeded_by_info(const Settings& training);

// `accrue info`: prints the build, the machine and what a model consists of, and returns this as
// JSON.
std::string info(const Request& options, const InfoOptions& asked);

}  // namespace accrue::app
