#pragma once

#include <limits>

#include "kernels/detail/attention_operands.cuh"

namespace accrue::cuda {

// The matrix of scores of a head exists only in tiles of 32 by 32. Each block computes one tile at
// a time, when it needs it, and adds up what its 32 rows, queries or keys, get from the tile's 32
// columns. In a block of eight warps, lane l has column l of a tile, and warp w has rows w, w + 8,
// w + 16 and w + 24, so sums over columns are sums over a warp. Memory is read along the channels
// of a head, which lie side by side.
inline constexpr int tile_size = warp_threads, tile_warps = block_threads / warp_threads;
inline constexpr int thread_rows = tile_size / tile_warps;
// The channels that a block sums; a lane has two of them for each row of its warp. Other blocks
// compute the same tiles for the other channels.
inline constexpr int block_channels = 64, thread_channels = block_channels / warp_threads;

// A thread's elements of a tile, and of the sums of its rows.
template <class W>
using TileElements = W[thread_rows];
template <class W>
using RowElements = W[thread_rows][thread_channels];

inline __device__ int tile_lane() { return threadIdx.x % tile_size; }
// Row m of the thread.
inline __device__ int tile_row(int m) { return threadIdx.x / tile_size + m * tile_warps; }
inline __device__ int first_channel() { return static_cast<int>(blockIdx.y) * block_channels; }

// The products of a block's tiles. Every thread of the block must call the functions that multiply.
template <class T>
class Tiles {
 public:
  using W = Wide<T>;

  // `columns` is a column wider than a tile, so that lanes, each reading one row, use different
  // banks.
  struct Shared {
    W rows[tile_size][tile_size], columns[tile_size][tile_size + 1];
    W weights[tile_size][tile_size], of_column[tile_size][block_channels];
    bool is_finite[tile_size];  // of each column
  };

  // products[m] = sum_d rows[row m, d] * columns[lane, d].
  static __device__ void multiply(TileElements<W>& products, const HeadRows<T>& rows,
                                  const HeadRows<T>& columns, int64_t D, Shared& shared) {
    const int lane = tile_lane();
    for (W& product : products) product = 0;
    for (int d0 = 0; d0 < static_cast<int>(D); d0 += tile_size) {
      __syncthreads();  // the data staged before may still be in use
      for (int m = 0; m < thread_rows; ++m) {
        shared.rows[tile_row(m)][lane] = rows(tile_row(m), d0 + lane, D);
        shared.columns[tile_row(m)][lane] = columns(tile_row(m), d0 + lane, D);
      }
      __syncthreads();
      for (int d = 0; d < tile_size; ++d) {
        const W factor = shared.columns[lane][d];
        for (int m = 0; m < thread_rows; ++m) products[m] += shared.rows[tile_row(m)][d] * factor;
      }
    }
  }

  // The sums of the rows, for the channels of the block.
  class Sums {
   public:
    // sums[r] += sum_c weights[r, c] * columns[c]. A warp writes the weights of its own rows.
    // is_seen(m) says whether row m of the thread sees the lane's column.
    template <class IsSeen>
    __device__ void add(const TileElements<W>& weights, const HeadRows<T>& columns, int64_t D,
                        Shared& shared, IsSeen&& is_seen) {
      const int lane = tile_lane();
      __syncthreads();  // the data staged before may still be in use
      W zero = 0;
      for (int m = 0; m < thread_rows; ++m) {
        const int r = tile_row(m);
        shared.weights[r][lane] = weights[m];
        for (int k = lane; k < block_channels; k += tile_size) {
          const W value = columns(r, first_channel() + k, D);
          shared.of_column[r][k] = value;
          zero += 0 * value;
        }
      }
      if (__syncthreads_or(zero != 0)) isolate(shared, is_seen);
      for (int c = 0; c < tile_size; ++c)
        for (int k = 0; k < thread_channels; ++k) {
          const W value = shared.of_column[c][lane + k * tile_size];
          for (int m = 0; m < thread_rows; ++m)
            sums_[m][k] += shared.weights[tile_row(m)][c] * value;
        }
    }
    __device__ void scale(const TileElements<W>& factors, Shared&) {
      for (int m = 0; m < thread_rows; ++m)
        for (W& sum : sums_[m]) sum *= factors[m];
    }
    __device__ void take(RowElements<W>& sums, Shared&) const {
      for (int m = 0; m < thread_rows; ++m)
        for (int k = 0; k < thread_channels; ++k) sums[m][k] = sums_[m][k];
    }

   private:
    // Columns with NaN or infinity must not reach rows that do not see them, but 0 * NaN is NaN.
    // Such values become 0, and the weights of rows that see one NaN. A warp looks at the columns
    // that it has staged.
    template <class IsSeen>
    static __device__ void isolate(Shared& shared, IsSeen&& is_seen) {
      const int lane = tile_lane();
      for (int m = 0; m < thread_rows; ++m) {
        const int c = tile_row(m);
        bool found = false;
        for (int k = lane; k < block_channels; k += tile_size)
          if (W& value = shared.of_column[c][k]; 0 * value != 0) {
            value = 0;
            found = true;
          }
        found = __any_sync(whole_warp, found);
        if (lane == 0) shared.is_finite[c] = !found;
      }
      __syncthreads();
      for (int m = 0; m < thread_rows; ++m)
        if (!shared.is_finite[lane])
          shared.weights[tile_row(m)][lane] =
              is_seen(m) ? std::numeric_limits<W>::quiet_NaN() : W(0);
      __syncwarp();
    }

    RowElements<W> sums_ = {};
  };
};

}  // namespace accrue::cuda
