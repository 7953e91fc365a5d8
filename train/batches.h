#pragma once

#include <cstdint>
#include <string>

#include "core/ceil_div.h"

namespace accrue {

// How the samples of one optimizer step are cut: micro-batches of `micro`, the last of a window
// smaller when `effective` is not a multiple.
struct Batches {
  int64_t micro = 16, effective = 64;
  int64_t accumulation_steps() const { return ceil_div(effective, micro); }
  // "64 (16 x 4)", with the remainder where there is one: "70 (16 x 4 + 6)"
  std::string describe() const;
};

}  // namespace accrue
