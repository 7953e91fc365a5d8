#pragma once

#include "job/request.h"
#include "text/domain.h"

namespace accrue::app {

// Throws Error unless a command's weights are a language model's. Returns their domain, with the
// sizes that the file says.
const Text& check_language_model(const Request& options);

}  // namespace accrue::app
