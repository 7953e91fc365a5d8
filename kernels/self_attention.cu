#include <limits>

#include "kernels/detail/reduce.cuh"
#include "kernels/detail/self_attention_kernels.h"

namespace accrue::cuda {
namespace {

// A matrix [P, P] exists only as tiles of 32 by 32, one at a time in each block. A block has 32
// rows, and walks along the columns, 32 at a time. It computes a tile, and adds the tile's part to
// the results of its rows. In a block of eight warps lane l has row l: accesses to memory, where
// positions are contiguous, are contiguous too, and values that depend on the column are broadcast
// from shared memory to the whole warp. Warp w has columns w, w + 8, w + 16 and w + 24 of a tile.
constexpr int tile = warp_threads, warps = block_threads / warp_threads, per_thread = tile / warps;
// The number of channels that a block sums, eight in each warp. Other blocks compute the same tiles
// again for other channels: scores need few products compared with values.
constexpr int block_channels = 64, thread_channels = block_channels / warps;

template <class W>
struct Staged {
  W left[tile][tile], right[tile][tile];
};

// The operands at the positions of a tile's rows or columns: q and dy for queries, k and v for
// keys.
template <class T>
struct Positions {
  const T *scored, *valued;  // [N, D, P] and [N, C, P]

  __device__ Positions of_sample(int64_t n, const AttentionSizes& s) const {
    return {scored + n * s.D * s.P, valued + n * s.C * s.P};
  }
};

// sums[m] = sum_k left[k, row] * right[k, column m of the thread], with left and right [K, P], for
// a tile that begins at (row, column). The sums are zero beyond P. All threads of the block must
// call this.
template <class T, class W = Wide<T>>
__device__ void multiply_tile(W (&sums)[per_thread], const T* left, const T* right, int64_t K,
                              int64_t P, int64_t row, int64_t column, Staged<W>& staged) {
  const int lane = threadIdx.x % tile, warp = threadIdx.x / tile;
  for (W& sum : sums) sum = 0;
  for (int64_t k0 = 0; k0 < K; k0 += tile) {
    __syncthreads();  // other threads may still read the previous stage
    for (int m = 0; m < per_thread; ++m) {
      const int i = warp + m * warps;
      const int64_t k = k0 + i;
      staged.left[i][lane] = k < K && row + lane < P ? W(left[k * P + row + lane]) : W(0);
      staged.right[i][lane] = k < K && column + lane < P ? W(right[k * P + column + lane]) : W(0);
    }
    __syncthreads();
    for (int i = 0; i < tile; ++i) {
      const W factor = staged.left[i][lane];
      for (int m = 0; m < per_thread; ++m) sums[m] += factor * staged.right[i][warp + m * warps];
    }
  }
}

struct Place {
  int64_t n, row;

  // The place of the block's tile of rows among the tiles of all samples.
  __device__ explicit Place(int64_t P) {
    const int64_t tiles = ceil_div<int64_t>(P, tile);
    n = blockIdx.x / tiles;
    row = blockIdx.x % tiles * tile;
  }
};

// Computes L of 32 queries. Each thread keeps the largest of its scores of a row, and the sum of
// their exponentials relative to it. Then the first warp combines the results of all warps, in
// order.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    log_sums_kernel(W* L, const T* q, const T* k, AttentionSizes s, W scale) {
  alignas(W) __shared__ Staged<W> staged;
  alignas(W) __shared__ W largest_of[warps][tile];
  alignas(W) __shared__ W sum_of[warps][tile];
  const int lane = threadIdx.x % tile, warp = threadIdx.x / tile;
  const auto [n, row] = Place(s.P);
  W largest = -std::numeric_limits<W>::infinity(), sum = 0;
  for (int64_t column = 0; column < s.P; column += tile) {
    W scores[per_thread];
    multiply_tile(scores, q + n * s.D * s.P, k + n * s.D * s.P, s.D, s.P, row, column, staged);
    for (int m = 0; m < per_thread; ++m) {
      if (column + warp + m * warps >= s.P) break;
      const W score = scale * scores[m], next = score > largest ? score : largest;
      sum = sum * std::exp(largest - next) + std::exp(score - next);
      largest = next;
    }
  }
  largest_of[warp][lane] = largest;
  sum_of[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || row + lane >= s.P) return;
  for (int w = 1; w < warps; ++w) largest = std::max(largest, largest_of[w][lane]);
  sum = 0;
  for (int w = 0; w < warps; ++w) sum += sum_of[w][lane] * std::exp(largest_of[w][lane] - largest);
  L[n * s.P + row + lane] = largest + std::log(sum);
}

// t[n, i] = sum_c dy[n, c, i] * y[n, c, i]. One thread for each query.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    channel_products_kernel(W* t, const T* dy, const T* y, AttentionSizes s) {
  for (int64_t i = first_item(); i < s.N * s.P; i += item_stride()) {
    const int64_t at = i / s.P * s.C * s.P + i % s.P;
    W sum = 0;
    for (int64_t c = 0; c < s.C; ++c) sum += dy[at + c * s.P] * y[at + c * s.P];
    t[i] = sum;
  }
}

// Selects the elements of the matrix: a or ds.
enum class Weight { probability, gradient };
// Selects the rows of the matrix; its columns are the other kind.
enum class Rows { queries, keys };

// out[n, c, row] = sum_column x[row, column] * z[n, c, column] with z and out [N, K, P] and x the
// matrix a or ds of sample n, or its transpose: y, dv, dq and dk. Blocks lie along all samples'
// tiles of rows, and along the channels.
template <Weight weight, Rows kind, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    weighted_sums_kernel(T* out, const T* z, int64_t K, Positions<T> all_rows,
                         Positions<T> all_columns, const W* L, const W* t, AttentionSizes s,
                         W scale) {
  alignas(W) __shared__ Staged<W> staged;
  alignas(W) __shared__ W x[tile][tile];  // [column][row]
  alignas(W) __shared__ W z_tile[block_channels][tile];
  const int lane = threadIdx.x % tile, warp = threadIdx.x / tile;
  const auto [n, row] = Place(s.P);
  const int64_t channel = int64_t{blockIdx.y} * block_channels + warp * thread_channels;
  const Positions<T> rows = all_rows.of_sample(n, s), columns = all_columns.of_sample(n, s);
  z += n * K * s.P;
  out += n * K * s.P;
  L += n * s.P;
  t += n * s.P;
  W sums[thread_channels] = {};
  for (int64_t column = 0; column < s.P; column += tile) {
    // 1. The tile of x.
    W scores[per_thread], da[per_thread];
    multiply_tile(scores, rows.scored, columns.scored, s.D, s.P, row, column, staged);
    if constexpr (weight == Weight::gradient)
      multiply_tile(da, rows.valued, columns.valued, s.C, s.P, row, column, staged);
    for (int m = 0; m < per_thread; ++m) {
      const int64_t r = row + lane, c = column + warp + m * warps;
      W value = 0;
      if (r < s.P && c < s.P) {
        const int64_t query = kind == Rows::queries ? r : c;
        value = std::exp(scale * scores[m] - L[query]);
        if constexpr (weight == Weight::gradient)
          value = score_gradient(value, da[m], t[query], scale);
      }
      x[warp + m * warps][lane] = value;
    }
    // 2. The columns of z that the tile multiplies.
    for (int k = 0; k < thread_channels; ++k) {
      const bool inside = channel + k < K && column + lane < s.P;
      z_tile[warp * thread_channels + k][lane] =
          inside ? W(z[(channel + k) * s.P + column + lane]) : W(0);
    }
    __syncthreads();
    // 3. The product. The next tile is written only after a barrier in multiply_tile().
    for (int c = 0; c < tile; ++c)
      for (int k = 0; k < thread_channels; ++k)
        sums[k] += x[c][lane] * z_tile[warp * thread_channels + k][c];
  }
  if (row + lane >= s.P) return;
  for (int k = 0; k < thread_channels; ++k)
    if (channel + k < K)
      store(out[(channel + k) * s.P + row + lane], sums[k], std::bool_constant<accumulate>{});
}

template <Weight weight, Rows kind, class T, class W = Wide<T>>
void weighted_sums(GradTarget out, const T* z, int64_t K, const Positions<T>& rows,
                   const Positions<T>& columns, const W* L, const W* t, const AttentionSizes& s) {
  const Grid grid{dim3(static_cast<unsigned>(s.N * ceil_div<int64_t>(s.P, tile)),
                       static_cast<unsigned>(ceil_div<int64_t>(K, block_channels)))};
  with_beta(out.beta, [&](auto accumulate) {
    enqueue(grid, weighted_sums_kernel<weight, kind, accumulate.value, T>, out.grad.as<T>(), z, K,
            rows, columns, L, t, s, static_cast<W>(s.scale()));
  });
}

}  // namespace

void self_attention(View y, View L, AttentionInputs in, View) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const AttentionSizes s(in);
        const T *queries = in.q.as<const T>(), *keys = in.k.as<const T>();
        const T* values = in.v.as<const T>();
        const Grid grid{dim3(static_cast<unsigned>(s.N * ceil_div<int64_t>(s.P, tile)))};
        enqueue(grid, log_sums_kernel<T>, L.as<W>(), queries, keys, s, static_cast<W>(s.scale()));
        weighted_sums<Weight::probability, Rows::queries, T>({y, 0}, values, s.C, {queries, values},
                                                             {keys, values}, L.as<const W>(),
                                                             L.as<const W>(), s);
      });
}

// Each gradient has its own kernel, which computes the tiles again, so that no sum spans several
// blocks.
void self_attention_backward(AttentionTargets targets, View dy, View y, View L, AttentionInputs in,
                             View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const AttentionSizes s(in);
        const Positions<T> queries{in.q.as<const T>(), dy.as<const T>()};
        const Positions<T> keys{in.k.as<const T>(), in.v.as<const T>()};
        const W* log_sums = L.as<const W>();
        W* t = static_cast<W*>(scratch.data);
        if (targets.dk || targets.dq)
          enqueue(grid_over(s.N * s.P), channel_products_kernel<T>, t, dy.as<const T>(),
                  y.as<const T>(), s);
        if (targets.dv)
          weighted_sums<Weight::probability, Rows::keys, T>(*targets.dv, queries.valued, s.C, keys,
                                                            queries, log_sums, t, s);
        if (targets.dk)
          weighted_sums<Weight::gradient, Rows::keys, T>(*targets.dk, queries.scored, s.D, keys,
                                                         queries, log_sums, t, s);
        if (targets.dq)
          weighted_sums<Weight::gradient, Rows::queries, T>(*targets.dq, keys.scored, s.D, queries,
                                                            keys, log_sums, t, s);
      });
}

}  // namespace accrue::cuda
