#include "kernels/detail/formulas.h"
#include "kernels/detail/reduce.cuh"
#include "kernels/mask_score.h"

namespace accrue::cuda {
namespace {

constexpr int sum_threads = 512;

// One block has all elements, so that one launch is enough and the order of the sums is fixed.
template <class T>
__global__ void __launch_bounds__(sum_threads, 1)
    add_mask_score_kernel(double* score, const T* x, const T* masks, int64_t n) {
  RunningSum<Wide<T>> loss;
  int both = 0, found = 0, wanted = 0;
  for (int64_t i = threadIdx.x; i < n; i += sum_threads) {
    const bool in_a = x[i] > 0, in_b = masks[i] > 0;
    loss.add(formula::LogisticLoss{}(widen(x[i]), widen(masks[i])));
    both += in_a && in_b;
    found += in_a;
    wanted += in_b;
  }
  const Wide<T> sum = block_sum<sum_threads>(loss.total());
  both = block_sum<sum_threads>(both);
  found = block_sum<sum_threads>(found);
  wanted = block_sum<sum_threads>(wanted);
  if (threadIdx.x != 0) return;
  score[0] += static_cast<double>(sum);
  score[1] += both;
  score[2] += found;
  score[3] += wanted;
}

}  // namespace

void add_mask_score(View score, View x, View masks) {
  dispatch_floating(x.dtype, [&]<class T>() {
    enqueue({1, sum_threads}, add_mask_score_kernel<T>, score.as<double>(), x.as<const T>(),
            masks.as<const T>(), x.numel());
  });
}

}  // namespace accrue::cuda
