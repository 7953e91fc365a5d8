#pragma once

#include <cuda_pipeline.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/detail/attention_operands.cuh"
#include "kernels/detail/tensor_cores.cuh"

namespace accrue::cuda {

// Attention in 16 bits. A block has 64 rows, 16 for each of its four warps, and takes the columns a
// tile at a time. If rows are queries, columns are keys, and the other way round. A warp's scores
// and the sums of its rows stay in its registers. Lane l holds rows g and g + 8 and, in every eight
// columns, columns t and t + 1, with g = l / 4 and t = 2 (l % 4). The first two of a lane's four
// elements e are in row g, the last two in row g + 8 (Dao, "FlashAttention-2", 2023).
inline constexpr int fragment_rows = 64, fragment_threads = 128, warp_rows = 16;
// The number of elements in a vector, which is copied at once.
inline constexpr int vector_elements = 8;

inline __device__ int lane_of_warp() { return threadIdx.x % warp_threads; }
inline __device__ int first_row_of_warp() { return threadIdx.x / warp_threads * warp_rows; }
// The lane's row r (0 or 1) in the block, and the column of its element e among eight columns.
inline __device__ int row_of_lane(int r) {
  return first_row_of_warp() + lane_of_warp() / 4 + 8 * r;
}
inline __device__ int column_of_lane(int e) { return 2 * (lane_of_warp() % 4) + e % 2; }

// A lane's part of a warp's scores with `columns` columns, or of the sums of as many channels.
template <int columns>
using RowSums = float[columns / 8][4];

// A tile of columns in shared memory. Its rows are longer than their channels, so that eight
// consecutive rows begin in different banks.
template <class T, int columns, int channels>
struct ColumnTile {
  alignas(16) T of[columns][channels + vector_elements];
  unsigned finite[columns / warp_threads];  // a bit for each column, written by clear()

  // Begins to copy, with all threads of the block. Missing columns and channels become 0.
  __device__ void copy(const HeadRows<T>& from, int D) {
    constexpr int vectors = channels / vector_elements, at_once = fragment_threads / vectors;
    static_assert(columns % at_once == 0);
    const int first = threadIdx.x / vectors, d = threadIdx.x % vectors * vector_elements;
    const int count = d >= D ? 0 : from.count < columns ? static_cast<int>(from.count) : columns;
    const T* const at = from.first + first * from.stride + d;
    for (int k = 0; k < columns; k += at_once)
      __pipeline_memcpy_async(&of[first + k][d], at + k * from.stride, sizeof(T) * vector_elements,
                              first + k < count ? 0 : sizeof(T) * vector_elements);
  }

  // Sets columns with a value that is not finite to 0. All threads of the block must call it.
  __device__ void clear(int D) {
    __syncthreads();  // other threads may still multiply by the tile
    if (const int c = threadIdx.x; c < columns) {
      float zero = 0;
      for (int d = 0; d < D; ++d) zero += 0 * of[c][d];
      for (int d = 0; d < D && zero != 0; ++d) of[c][d] = T(0.0f);
      finite[c / warp_threads] = __ballot_sync(whole_warp, zero == 0);
    }
    __syncthreads();
  }
  __device__ bool is_finite(int c) const {
    return finite[c / warp_threads] >> c % warp_threads & 1;
  }
};

// The left factors of a warp's rows, in registers.
template <class T, int channels>
struct WarpRows {
  uint32_t of[channels / warp_rows][4];

  __device__ WarpRows(const HeadRows<T>& from, int D) {
    for (int k = 0; k < channels / warp_rows; ++k)
      for (int i = 0; i < 4; ++i) {
        const int r = row_of_lane(i % 2), d = warp_rows * k + column_of_lane(0) + i / 2 * 8;
        of[k][i] = r < from.count && d < D
                       ? *reinterpret_cast<const uint32_t*>(from.first + r * from.stride + d)
                       : 0;
      }
  }
};

// products[r, c] = sum_d rows[r, d] * tile[c, d]. Missing channels are multiplied as well, because
// 16 of them cost less than to ask for them.
template <class T, int columns, int channels>
__device__ void multiply(RowSums<columns>& products, const WarpRows<T, channels>& rows,
                         const ColumnTile<T, columns, channels>& tile) {
  const int lane = lane_of_warp();
  for (auto& of_eight : products)
    for (float& product : of_eight) product = 0;
  for (int k = 0; k < channels / 16; ++k)
    for (int c = 0; c < columns; c += 16) {
      uint32_t right[4];
      load_matrices(right, &tile.of[c + lane / 16 * 8 + lane % 8][16 * k + lane / 8 % 2 * 8]);
      add_product<T>(products[c / 8], rows.of[k], right[0], right[1]);
      add_product<T>(products[c / 8 + 1], rows.of[k], right[2], right[3]);
    }
}

// The sum and the maximum over the four lanes that share a row.
inline __device__ float row_sum(float value) { return warp_sum<4>(value); }
inline __device__ float row_max(float value) { return warp_max<4>(value); }

// Returns 2^exponent, but 0 below float's smallest normal number.
inline __device__ float power_of_two(int exponent) {
  return std::bit_cast<float>((exponent > -127 ? exponent + 127 : 0) << 23);
}

// The powers of two by which weights of a lane's rows are divided before they are rounded to T, and
// by which the sums of the rows are multiplied in the end. In a row the largest weight so far then
// lies between 2^14 and 2^15: none is beyond the range of half, and few lose bits below it. Only
// Half needs them.
template <class T>
class WeightScales {
 public:
  // Divides the weights of a tile, and the sums if their row's power of two has grown.
  template <class Weights, class Sums>
  __device__ void divide(Weights& weights, Sums& sums) {
    if constexpr (std::is_same_v<T, Half>) {
      float most[2] = {};
      for (const auto& of_eight : weights)
        for (int e = 0; e < 4; ++e) {
          const float size = std::abs(of_eight[e]);
          most[e / 2] = size > most[e / 2] ? size : most[e / 2];  // leaves NaN out
        }
      for (int r = 0; r < 2; ++r) {
        const int exponent = (std::bit_cast<int>(row_max(most[r])) >> 23) - largest;
        if (exponent <= exponents_[r]) continue;
        const float factor = power_of_two(exponents_[r] - exponent);
        for (auto& of_eight : sums)
          for (int e = 0; e < 2; ++e) of_eight[2 * r + e] *= factor;
        exponents_[r] = exponent;
      }
      const float factors[2] = {power_of_two(-exponents_[0]), power_of_two(-exponents_[1])};
      for (auto& of_eight : weights)
        for (int e = 0; e < 4; ++e) of_eight[e] *= factors[e / 2];
    }
  }
  template <class Sums>
  __device__ void multiply(Sums& sums) const {
    if constexpr (std::is_same_v<T, Half>) {
      const float factors[2] = {power_of_two(exponents_[0]), power_of_two(exponents_[1])};
      for (auto& of_eight : sums)
        for (int e = 0; e < 4; ++e) of_eight[e] *= factors[e / 2];
    }
  }

 private:
  static constexpr int largest = 127 + 14;  // the biased exponent of the largest weight
  // Smaller weights than for -127 are left as small as they are: 2^127 is the largest factor.
  int exponents_[2] = {-127, -127};
};

// sums[r, d] += sum_c weights[r, c] * tile[c, d], where the weights are rounded to T.
template <class T, int columns, int channels>
__device__ void add_weighted(RowSums<channels>& sums, const RowSums<columns>& weights,
                             const ColumnTile<T, columns, channels>& tile) {
  const int lane = lane_of_warp();
  for (int c = 0; c < columns; c += 16) {
    const float(&w)[4] = weights[c / 8], (&next)[4] = weights[c / 8 + 1];
    const uint32_t left[4] = {pair_of<T>(w[0], w[1]), pair_of<T>(w[2], w[3]),
                              pair_of<T>(next[0], next[1]), pair_of<T>(next[2], next[3])};
    for (int d = 0; d < channels; d += 16) {
      uint32_t right[4];
      load_transposed_matrices(right, &tile.of[c + lane % 16][d + lane / 16 * 8]);
      add_product<T>(sums[d / 8], left, right[0], right[1]);
      add_product<T>(sums[d / 8 + 1], left, right[2], right[3]);
    }
  }
}

// Sets the values of pairs that do not see each other. is_seen(r, c) says whether the lane's row r
// and column c do.
template <int eights, class IsSeen>
__device__ void hide(float (&values)[eights][4], float hidden, IsSeen&& is_seen) {
  for (int c = 0; c < eights; ++c)
    for (int e = 0; e < 4; ++e)
      if (!is_seen(e / 2, 8 * c + column_of_lane(e))) values[c][e] = hidden;
}

// Prepares a product of weights and a tile for values that are not finite, which must not reach
// rows that do not see their column: 0 * NaN is NaN. It sets such columns to 0, and the weights of
// rows that see one to NaN. All threads of the block must call it.
template <class T, int columns, int channels, class IsSeen>
__device__ void isolate(RowSums<columns>& weights, ColumnTile<T, columns, channels>& tile, int D,
                        IsSeen&& is_seen) {
  tile.clear(D);
  for (int c = 0; c < columns; c += 8)
    for (int e = 0; e < 4; ++e)
      if (const int column = c + column_of_lane(e); !tile.is_finite(column))
        weights[c / 8][e] = std::numeric_limits<float>::quiet_NaN();
  hide(weights, 0, is_seen);
}

// True if one of the thread's sums is NaN.
template <class... Sums>
__device__ bool has_nan(const Sums&... sums) {
  float total = 0;
  const auto add = [&](const auto& of_rows) {
    for (const auto& of_eight : of_rows)
      for (const float sum : of_eight) total += sum;
  };
  (add(sums), ...);
  return total != total;
}

// Writes the sums of the rows from `row` on.
template <class T, int channels>
__device__ void store_rows(const Target<T>& target, const RowSums<channels>& sums, int64_t n,
                           int64_t row, int64_t h, int D) {
  struct alignas(2 * sizeof(T)) Pair {
    T of[2];
  };
  for (int r = 0; r < 2; ++r) {
    const int64_t at = row + row_of_lane(r);
    if (at >= target.to.rows) return;
    T* const out = target.to.at(n, at, h) + column_of_lane(0);
    for (int d = 0; d < channels; d += 8)
      if (d < D) {
        Pair& pair = *reinterpret_cast<Pair*>(out + d);
        const float* const sum = &sums[d / 8][2 * r];
        if (target.beta == 0) pair = {T(sum[0]), T(sum[1])};
        else pair = {T(pair.of[0] + sum[0]), T(pair.of[1] + sum[1])};
      }
  }
}

}  // namespace accrue::cuda
