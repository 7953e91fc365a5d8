#pragma once

#include "core/launch.cuh"

namespace accrue::cuda {

inline constexpr int warp_threads = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

// The sum over a warp, in every lane. The order is fixed: the same bits in every run.
template <class T>
__device__ T warp_sum(T value) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(whole_warp, value, distance);
  return value;
}

template <class T>
__device__ T warp_max(T value) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(whole_warp, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over a block of `threads`, a multiple of 32 up to 1024, in every thread: warps by
// shuffles, then the warps' sums through shared memory. Every thread of the block must call it.
template <int threads, class T>
__device__ T block_sum(T value) {
  constexpr int warps = threads / warp_threads;
  __shared__ T of_warp[warps];
  value = warp_sum(value);
  __syncthreads();  // of_warp may still be being read from the call before
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  T sum = 0;
  for (int warp = 0; warp < warps; ++warp) sum += of_warp[warp];
  return sum;
}

// A thread's sum of any number of terms: runs of them in T, the runs in double, so that the
// rounding error is that of one run and double additions, slow on most cards, are few.
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

 private:
  double total_ = 0;
  T run_ = 0;
  int terms_ = 0;
};

}  // namespace accrue::cuda
