#pragma once

#include "core/inside.h"
#include "job/request.h"
#include "train/stop.h"

namespace accrue::app {

Settings evaluation_settings(Request& options);
// `accrue eval`: prints loss and accuracy of saved weights on the training and the test data, and
// returns them as JSON. Throws Stopped if `stop` returns Stop::now before the end.
std::string eval(const Request& options, const StopRequest& stop = never_stop);

}  // namespace accrue::app
