#pragma once

namespace accrue {

// Whether a product transposes an operand: op(A) is A or A^T.
enum class Transpose { no, yes };

}  // namespace accrue
