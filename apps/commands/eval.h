#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

Settings evaluation_settings(Options& options);
// `accrue eval`: prints loss and accuracy of saved weights on the training and the test data, and
// returns them as JSON.
std::string eval(const Options& options);

}  // namespace accrue::app
