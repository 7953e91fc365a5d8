#pragma once

#include <mma.h>

#include "kernels/detail/causal_attention_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {

// The matrix of scores of a head exists only as tiles of 32 by 32, one at a time in each block,
// that are computed where they are used: a block adds up what its 32 rows, which are queries or
// keys, get from 32 columns at a time. In a block of eight warps lane l has column l of a tile, and
// warp w the rows w, w + 8, w + 16 and w + 24, so that sums over columns are sums over a warp.
// Memory is read along the channels of a head, which lie side by side.
inline constexpr int tile_size = warp_threads, tile_warps = block_threads / warp_threads;
inline constexpr int thread_rows = tile_size / tile_warps;
// Channels that a block sums, of which a lane has two of each row of its warp. More blocks, which
// compute the same tiles, have the others.
inline constexpr int block_channels = 64, thread_channels = block_channels / warp_threads;

// A thread's elements of a tile, and of what rows get from it.
template <class W>
using TileElements = W[thread_rows];
template <class W>
using RowElements = W[thread_rows][thread_channels];

inline __device__ int tile_lane() { return threadIdx.x % tile_size; }
// Row m of the thread.
inline __device__ int tile_row(int m) { return threadIdx.x / tile_size + m * tile_warps; }
inline __device__ int64_t first_channel() { return int64_t{blockIdx.y} * block_channels; }

// `count` rows of a head, from the first of a tile on.
template <class T>
struct HeadRows {
  const T* first;
  int64_t stride, count;

  __device__ HeadRows(const Heads<const T>& x, int64_t n, int64_t row, int64_t h)
      : first(x.at(n, row, h)), stride(x.stride), count(x.rows - row) {}
  // 0 where the tile reaches beyond the rows or the channels.
  __device__ T operator()(int64_t r, int64_t d, int64_t D) const {
    return r < count && d < D ? first[r * stride + d] : T(Wide<T>(0));
  }
};

// Tensor cores multiply 16-bit types, bfloat16 from compute capability 8.0 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <class T>
inline constexpr bool on_tensor_cores = std::is_same_v<T, Half>;
#else
template <class T>
inline constexpr bool on_tensor_cores = is_16_bit<T>;
#endif

// Stages a tile's weights, and of its columns the block's channels, for sums over the columns.
template <class Shared, class W, class T>
__device__ void stage(Shared& shared, const TileElements<W>& weights, const HeadRows<T>& columns,
                      int64_t D) {
  using Weight = std::remove_reference_t<decltype(shared.weights[0][0])>;
  const int lane = tile_lane();
  __syncthreads();  // what was staged before may still be being read
  for (int m = 0; m < thread_rows; ++m) {
    const int r = tile_row(m);
    shared.weights[r][lane] = Weight(weights[m]);
    for (int k = lane; k < block_channels; k += tile_size)
      shared.of_column[r][k] = columns(r, first_channel() + k, D);
  }
  __syncthreads();
}

// The products of a block's tiles. Every thread of the block must call what multiplies.
template <class T, bool = on_tensor_cores<T>>
class Tiles {
 public:
  using W = Wide<T>;

  // A column more than a tile has, so that the lanes, which read one each, use different banks.
  struct Shared {
    W rows[tile_size][tile_size], columns[tile_size][tile_size + 1];
    W weights[tile_size][tile_size], of_column[tile_size][block_channels];
  };

  // products[m] = sum_d rows[row m, d] * columns[lane, d].
  static __device__ void multiply(TileElements<W>& products, const HeadRows<T>& rows,
                                  const HeadRows<T>& columns, int64_t D, Shared& shared) {
    const int lane = tile_lane();
    for (W& product : products) product = 0;
    for (int64_t d0 = 0; d0 < D; d0 += tile_size) {
      __syncthreads();  // what was staged before may still be being read
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

  // What rows get, for the channels of the block.
  class Sums {
   public:
    // sums[r] += sum_c weights[r, c] * columns[c]. A warp writes the weights of its own rows.
    __device__ void add(const TileElements<W>& weights, const HeadRows<T>& columns, int64_t D,
                        Shared& shared) {
      stage(shared, weights, columns, D);
      const int lane = tile_lane();
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
    RowElements<W> sums_ = {};
  };
};

// On tensor cores, in fragments of 16 by 16 that are added up in float; weights are rounded to T.
template <class T>
class Tiles<T, true> {
 public:
  using W = Wide<T>;

  // Rows are longer than what they hold, so that those of a fragment begin in different banks, and
  // fragments at multiples of 32 bytes.
  struct alignas(32) Shared {
    alignas(32) T rows[tile_size][block_channels + 8];
    alignas(32) T columns[tile_size][block_channels + 8];
    alignas(32) W products[2][tile_size][tile_size + 4];
    alignas(32) T weights[tile_size][tile_size + 8];
    alignas(32) T of_column[tile_size][block_channels + 8];
    alignas(32) W sums[tile_size][block_channels + 4];
  };

  // A tile has four fragments, and each two warps, of which one adds up the first 32 of 64 channels
  // and the other the rest.
  static __device__ void multiply(TileElements<W>& products, const HeadRows<T>& rows,
                                  const HeadRows<T>& columns, int64_t D, Shared& shared) {
    const int lane = tile_lane(), warp = threadIdx.x / warp_threads;
    const int row = warp / 2 % 2 * edge, column = warp % 2 * edge, half = warp / 4;
    Accumulator sums;
    fill_fragment(sums, 0.0f);
    for (int64_t d0 = 0; d0 < D; d0 += block_channels) {
      __syncthreads();  // what was staged before may still be being read
      for (int m = 0; m < thread_rows; ++m)
        for (int d = lane; d < block_channels; d += tile_size) {
          shared.rows[tile_row(m)][d] = rows(tile_row(m), d0 + d, D);
          shared.columns[tile_row(m)][d] = columns(tile_row(m), d0 + d, D);
        }
      __syncthreads();
      const int first = half * (block_channels / 2);
      for (int d = first; d < first + block_channels / 2 && d0 + d < D; d += edge) {
        Left left;
        Right<nvcuda::wmma::col_major> right;
        load_matrix_sync(left, elements(&shared.rows[row][d]), block_channels + 8);
        load_matrix_sync(right, elements(&shared.columns[column][d]), block_channels + 8);
        mma_sync(sums, left, right, sums);
      }
    }
    store_matrix_sync(&shared.products[half][row][column], sums, tile_size + 4,
                      nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int m = 0; m < thread_rows; ++m)
      products[m] = shared.products[0][tile_row(m)][lane] + shared.products[1][tile_row(m)][lane];
  }

  // The block's rows and channels are eight fragments, one of each warp.
  class Sums {
   public:
    __device__ Sums() { fill_fragment(sums_, 0.0f); }

    __device__ void add(const TileElements<W>& weights, const HeadRows<T>& columns, int64_t D,
                        Shared& shared) {
      stage(shared, weights, columns, D);
      if (first_channel() + channel() >= D) return;
      for (int c = 0; c < tile_size; c += edge) {
        Left left;
        Right<nvcuda::wmma::row_major> right;
        load_matrix_sync(left, elements(&shared.weights[row()][c]), tile_size + 8);
        load_matrix_sync(right, elements(&shared.of_column[c][channel()]), block_channels + 8);
        mma_sync(sums_, left, right, sums_);
      }
    }
    // Which lane has which row of a fragment is not known, so they go through shared memory, where
    // there is a factor other than 1.
    __device__ void scale(const TileElements<W>& factors, Shared& shared) {
      bool changes = false;
      for (const W factor : factors) changes |= factor != 1;
      if (!__syncthreads_or(changes)) return;
      store(shared);
      for (int m = 0; m < thread_rows; ++m)
        for (int k = tile_lane(); k < block_channels; k += tile_size)
          shared.sums[tile_row(m)][k] *= factors[m];
      __syncthreads();
      load_matrix_sync(sums_, &shared.sums[row()][channel()], block_channels + 4,
                       nvcuda::wmma::mem_row_major);
    }
    __device__ void take(RowElements<W>& sums, Shared& shared) const {
      __syncthreads();  // another's sums may still be being read
      store(shared);
      for (int m = 0; m < thread_rows; ++m)
        for (int k = 0; k < thread_channels; ++k)
          sums[m][k] = shared.sums[tile_row(m)][tile_lane() + k * tile_size];
    }

   private:
    static __device__ int row() { return threadIdx.x / warp_threads / 4 * edge; }
    static __device__ int channel() { return threadIdx.x / warp_threads % 4 * edge; }
    __device__ void store(Shared& shared) const {
      store_matrix_sync(&shared.sums[row()][channel()], sums_, block_channels + 4,
                        nvcuda::wmma::mem_row_major);
      __syncthreads();
    }

    typename Tiles::Accumulator sums_;
  };

 private:
  static constexpr int edge = 16;
  using Element = std::conditional_t<std::is_same_v<T, Half>, __half, __nv_bfloat16>;
  using Left = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, edge, edge, edge, Element,
                                      nvcuda::wmma::row_major>;
  template <class Layout>
  using Right = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, edge, edge, edge, Element, Layout>;
  using Accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, edge, edge, edge, float>;

  static __device__ const Element* elements(const T* x) {
    return reinterpret_cast<const Element*>(x);
  }
};

}  // namespace accrue::cuda
