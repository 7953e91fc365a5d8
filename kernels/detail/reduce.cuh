#pragma once

#include "core/launch.cuh"

namespace accrue::cuda {

inline constexpr int warp_threads = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

// The sum over each `lanes` neighbouring lanes of a warp; each of these lanes gets it. With
// `columns`, only lanes that are a multiple of `columns` apart are added. Every lane must call it.
// The order is fixed: every run gives the same bits.
template <int lanes = warp_threads, int columns = 1, class T>
__device__ T warp_sum(T value) {
  for (int distance = lanes / 2; distance >= columns; distance /= 2)
    value += __shfl_xor_sync(whole_warp, value, distance);
  return value;
}

// The sums of `count` values each over a warp's lanes; `count` is a power of two up to 32. Lane l
// returns the sum of values[l / (32 / count)]. At each distance a lane gives its partner the half
// of its sums that the partner keeps, so 16 values take 16 shuffles instead of 80. Every lane must
// call it. The order is fixed.
template <int count, int distance = warp_threads / 2, class T>
__device__ T warp_sums(const T (&values)[count]) {
  if constexpr (count == 1) {
    return warp_sum<2 * distance>(values[0]);
  } else {
    constexpr int half = count / 2;
    const bool upper = (threadIdx.x & distance) != 0;
    T sums[half];
    for (int k = 0; k < half; ++k) {
      const T kept = upper ? values[half + k] : values[k];
      sums[k] = kept + __shfl_xor_sync(whole_warp, upper ? values[k] : values[half + k], distance);
    }
    return warp_sums<half, distance / 2>(sums);
  }
}

template <int lanes = warp_threads, class T>
__device__ T warp_max(T value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(whole_warp, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over a block of `threads`, a multiple of 32 up to 1024; every thread gets it. Warps add
// by shuffles, and then the warps' sums are added through shared memory. With `columns`, a power of
// two up to `threads`, only threads that are a multiple of `columns` apart are added. Every thread
// of the block must call it.
template <int threads, int columns = 1, class T>
__device__ T block_sum(T value) {
  constexpr int warps = threads / warp_threads;
  constexpr int of_one = columns < warp_threads ? columns : warp_threads;  // columns of a warp
  __shared__ T of_warp[warps][of_one];
  value = warp_sum<warp_threads, of_one>(value);
  __syncthreads();  // the call before may still be reading of_warp
  const int lane = threadIdx.x % warp_threads, first = threadIdx.x % columns / warp_threads;
  if (lane < of_one) of_warp[threadIdx.x / warp_threads][lane] = value;
  __syncthreads();
  T sum = 0;
  for (int warp = first; warp < warps; warp += columns / of_one)
    sum += of_warp[warp][lane % of_one];
  return sum;
}

// The largest value, likewise. A NaN is never larger than another value.
template <int threads, class T>
__device__ T block_max(T value) {
  constexpr int warps = threads / warp_threads;
  __shared__ T of_warp[warps];
  value = warp_max(value);
  __syncthreads();  // the call before may still be reading of_warp
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  T largest = of_warp[0];
  for (int warp = 1; warp < warps; ++warp)
    largest = of_warp[warp] > largest ? of_warp[warp] : largest;
  return largest;
}

// True if this block is the last of `blocks` that call this for the same place in [0, most_places).
// The block then sees everything that the others wrote before their calls. Every thread of these
// blocks must call it, once.
inline constexpr int most_places = 1024;
__device__ inline bool is_last_block(unsigned place, unsigned blocks) {
  // Every grid leaves these at 0, and grids follow one another on the one stream.
  static unsigned asked[most_places];
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&asked[place], 1) == blocks - 1;
    if (last) asked[place] = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// The same for all blocks of a grid.
__device__ inline bool is_last_block() { return is_last_block(0, gridDim.x * gridDim.y); }

// A thread's sum of any number of terms. Runs of terms are added in T, and the runs in double. The
// rounding error is therefore that of one run, and there are few double additions, which are slow
// on most cards.
template <class T>
class RunningSum {
 public:
  __device__ void add(T term) {
    run_ += term;
    if (++terms_ == 256) {
      total_ += run_;
      run_ = 0;
      terms_ = 0;
    }
  }
  __device__ T total() const { return static_cast<T>(total_ + run_); }
  __device__ double sum() const { return total_ + run_; }

 private:
  double total_ = 0;
  T run_ = 0;
  int terms_ = 0;
};

// The same of `count` sums side by side, to which add() adds a term each.
template <class T, int count>
class RunningSums {
 public:
  __device__ void add(const T (&terms)[count]) {
    for (int k = 0; k < count; ++k) runs_[k] += terms[k];
    if (++terms_ < 256) return;
    for (int k = 0; k < count; ++k) {
      totals_[k] += runs_[k];
      runs_[k] = 0;
    }
    terms_ = 0;
  }
  __device__ T total(int k) const { return static_cast<T>(totals_[k] + runs_[k]); }

 private:
  double totals_[count] = {};
  T runs_[count] = {};
  int terms_ = 0;
};

// mean = sum of partials / n, computed in one block: each thread adds every 256th partial.
template <class T>
__global__ void __launch_bounds__(block_threads)
    mean_kernel(T* mean, const double* partials, int64_t count, double n) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += partials[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) *mean = static_cast<T>(sum / n);
}

}  // namespace accrue::cuda
