#include "job/build.h"

namespace accrue {

const char* compiler() { return ACCRUE_COMPILER; }
const char* libraries() { return ACCRUE_LIBRARIES; }
const char* source_scripts() { return ACCRUE_SCRIPTS; }

}  // namespace accrue
