#pragma once

namespace accrue {

// Where the channels of images lie in memory. Weights of convolutions have one layout, [O, C, KH,
// KW], for both.
enum class Channels {
  first,  // [N, C, H, W]
  last    // [N, H, W, C], which tensor cores multiply without a transposed copy; on cuda alone
};

}  // namespace accrue
