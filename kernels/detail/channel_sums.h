#pragma once

#include <algorithm>

#include "core/ceil_div.h"
#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/backend.h"
#include "kernels/pointwise.h"

namespace accrue {

// How cuda sums the N * S elements of each channel of x [N, C, S]. Channels are few, so the
// elements of each are cut into pieces for separate blocks. The last block of a channel adds the
// pieces' sums in order. Shape and dtype alone decide the pieces: every device gives the same bits.
struct ChannelPieces {
  // Blocks that fill a large GPU: an H200 has 132 multiprocessors with room for four blocks each.
  static constexpr int64_t enough = 512;
  // With S = 1, the threads that lie side by side in a row, and the bytes that each takes: a block
  // reads whole lines of 128 bytes.
  static constexpr int64_t lanes = 8, lane_bytes = 16;

  int64_t channels;  // neighbours that a block sums side by side
  int64_t blocks;    // for all channels
  int64_t pieces;    // of a channel

  ChannelPieces(int64_t N, int64_t C, int64_t S, DType dtype)
      : channels(S == 1 ? lanes * lane_bytes / int64_t(size_of(dtype)) : 1),
        blocks(ceil_div(C, channels)) {
    constexpr int64_t least = 4096;  // elements that are worth a block
    pieces = std::max<int64_t>(
        1, std::min(enough / std::max<int64_t>(blocks, 1), N * S * channels / least));
  }

  // The number of the pieces' sums, if there are so many of each channel.
  int64_t partials(int64_t sums, int64_t C) const { return pieces > 1 ? pieces * sums * C : 0; }
};

// Scratch for the pieces' sums, `sums` for each channel.
inline Tensor channel_sums_scratch(int64_t sums, int64_t N, int64_t C, int64_t S, DType dtype,
                                   Device device) {
  const int64_t partials =
      plans_for_cuda(device) ? ChannelPieces(N, C, S, dtype).partials(sums, C) : 0;
  return Tensor::empty({partials}, wide(dtype), device, Category::workspace);
}

namespace cpu {

// db[c] = sum_(n, s) dy[n, c, s] + beta * db[c], dy [N, C, S]. Scratch:
// channel_sums_scratch(1, ...).
void channel_sum(GradTarget db, View dy, View scratch);

// dz = dy * f'(z) over dy [N, C], for a formula that keeps x, and db[c] = sum_n dz[n, c] + beta *
// db[c]. Scratch: channel_sums_scratch(1, ...).
void slope_and_sums(View dy, GradTarget db, View z, const detail::formula::AnyPointwise& f,
                    View scratch);

}  // namespace cpu

namespace cuda {
decltype(cpu::channel_sum) channel_sum;
decltype(cpu::slope_and_sums) slope_and_sums;
}  // namespace cuda

// Launches channel_sum() with its scratch.
void sum_channels(GradTarget db, const View& dy);

}  // namespace accrue
