#pragma once

#include "apps/cli/options.h"

namespace accrue::app {

Settings evaluation_settings(Options& options);
// `accrue eval`: loss and accuracy of saved weights on the training and the test data.
void eval(const Options& options);

}  // namespace accrue::app
