#pragma once

#include <cstdint>

namespace accrue {

// A matrix of which only the columns from `begin` on are meant.
struct Columns {
  int64_t begin, stride;
};

}  // namespace accrue
