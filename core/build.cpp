#include "core/build.h"

namespace accrue {

const char* version() { return ACCRUE_VERSION; }
const char* matrix_products() { return ACCRUE_MATRIX_PRODUCTS; }

}  // namespace accrue
