#pragma once

#include "apps/options.h"

namespace accrue::app {

// `accrue eval`: loss and accuracy of saved weights on the training and the test data.
void eval(const TrainOptions& options);

}  // namespace accrue::app
