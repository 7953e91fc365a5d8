#pragma once

namespace accrue {

// op of a product's operand.
enum class Transpose { no, yes };

}  // namespace accrue
