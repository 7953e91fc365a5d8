#pragma once

#include <algorithm>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/backend.h"

namespace accrue {

// How cuda sums the N * S elements of each channel of x [N, C, S]. Channels are few, so the
// elements of each are cut into pieces for separate blocks, and the pieces' sums are added in
// order. The shape alone decides the pieces: every device gives the same bits.
struct ChannelPieces {
  // Neighbouring channels that a block sums side by side. With S = 1 they are 32 bytes of float,
  // the least that a memory access fetches.
  int64_t channels;
  int64_t blocks;  // for all channels
  int64_t pieces;  // of a channel

  ChannelPieces(int64_t N, int64_t C, int64_t S) : channels(S == 1 ? 8 : 1) {
    // Enough pieces to fill a large GPU, each large enough for a block.
    constexpr int64_t enough = 512, least = 4096;
    blocks = ceil_div(C, channels);
    pieces = std::max<int64_t>(
        1, std::min(enough / std::max<int64_t>(blocks, 1), N * S * channels / least));
  }
};

// Scratch for the pieces' sums, `sums` for each channel.
inline Tensor channel_sums_scratch(int64_t sums, int64_t N, int64_t C, int64_t S, DType dtype,
                                   Device device) {
  const int64_t pieces = plans_for_cuda(device) ? ChannelPieces(N, C, S).pieces : 1;
  return Tensor::empty({pieces > 1 ? pieces * sums * C : 0}, wide(dtype), device,
                       Category::workspace);
}

namespace cpu {

// db[c] = sum_(n, s) dy[n, c, s] + beta * db[c], dy [N, C, S]. Scratch:
// channel_sums_scratch(1, ...).
void channel_sum(GradTarget db, View dy, View scratch);

}  // namespace cpu

namespace cuda {
decltype(cpu::channel_sum) channel_sum;
}  // namespace cuda

// Launches channel_sum() with its scratch.
void sum_channels(GradTarget db, const View& dy);

}  // namespace accrue
