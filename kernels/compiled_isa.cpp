#include "kernels/compiled_isa.h"

namespace accrue {

const char* compiled_isa() { return ACCRUE_COMPILED_ISA; }

}  // namespace accrue
