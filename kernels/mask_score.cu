#include "kernels/detail/mask_score_kernels.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/judged.h"

namespace accrue::cuda {
namespace {

constexpr int sum_threads = 512;

// Block (k, p) counts piece p of the pixels of class k. Blocks add whole numbers to a sum, which a
// double holds exactly in any order. Neighbouring threads take neighbouring pixels.
template <bool classes, class T, class M>
__global__ void __launch_bounds__(sum_threads, 1)
    add_mask_score_kernel(double* score, const T* x, const M* masks, int64_t N, int64_t K,
                          int64_t P) {
  const int64_t k = blockIdx.x, piece = blockIdx.y, pieces = gridDim.y;
  const int64_t end = N * P * (piece + 1) / pieces;
  int both = 0, found = 0, wanted = 0;
  for (int64_t i = N * P * piece / pieces + threadIdx.x; i < end; i += sum_threads) {
    const int64_t n = i / P, p = i % P, at = (n * K + k) * P + p;
    bool in_a, in_b;
    if constexpr (classes) {
      in_a = masks[i] != not_judged && is_largest(x + n * K * P + p, k, K, P);
      in_b = masks[i] == k;
    } else {
      in_a = x[at] > 0;
      in_b = masks[at] > 0;
    }
    both += in_a && in_b;
    found += in_a;
    wanted += in_b;
  }
  both = block_sum<sum_threads>(both);
  found = block_sum<sum_threads>(found);
  wanted = block_sum<sum_threads>(wanted);
  if (threadIdx.x != 0) return;
  atomicAdd(&score[3 * k], double(both));
  atomicAdd(&score[3 * k + 1], double(found));
  atomicAdd(&score[3 * k + 2], double(wanted));
}

}  // namespace

void add_mask_score(View score, View x, View masks) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  // Enough blocks to fill a large GPU, each with enough pixels to be worth a block.
  constexpr int64_t enough = 512, least = 4096;
  const int64_t pieces = std::clamp<int64_t>(enough / K, 1, ceil_div(N * P, least));
  const Grid grid{dim3(static_cast<unsigned>(K), static_cast<unsigned>(pieces)), sum_threads};
  dispatch_floating(x.dtype, [&]<class T>() {
    if (masks.dtype == DType::i32)
      enqueue(grid, add_mask_score_kernel<true, T, int32_t>, score.as<double>(), x.as<const T>(),
              masks.as<const int32_t>(), N, K, P);
    else
      enqueue(grid, add_mask_score_kernel<false, T, T>, score.as<double>(), x.as<const T>(),
              masks.as<const T>(), N, K, P);
  });
}

}  // namespace accrue::cuda
