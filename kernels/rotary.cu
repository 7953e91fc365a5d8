#include "core/launch.cuh"
#include "kernels/backend.h"
#include "kernels/detail/rotary_kernels.h"

namespace accrue::cuda {
namespace {

// A thread handles one pair of a token in all heads, so it computes the angle once. Neighbouring
// threads take neighbouring pairs: a warp reads and writes contiguous heads or halves of heads. One
// thread reads a pair before it writes it, so y may be x.
template <bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    rotary_kernel(T* y, const T* x, const int32_t* positions, int64_t tokens, int64_t C,
                  RotaryPairs pairs) {
  constexpr std::bool_constant<accumulate> constant;
  const int64_t size = 2 * pairs.count;
  for (int64_t item = first_item(); item < tokens * pairs.count; item += item_stride()) {
    const int64_t token = item / pairs.count, i = item % pairs.count;
    const auto rotation = pairs.rotation<W>(positions[token], i);
    const int64_t end = (token + 1) * C;
    for (int64_t at = token * C + i * pairs.step; at < end; at += size) {
      const W a = x[at], b = x[at + pairs.apart];
      store(y[at], rotation.first(a, b), constant);
      store(y[at + pairs.apart], rotation.second(a, b), constant);
    }
  }
}

}  // namespace

void rotary(GradTarget y, View x, View positions, const RotaryPairs& pairs) {
  const int64_t tokens = positions.numel(), C = x.shape[2];
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>() {
    with_beta(y.beta, [&](auto accumulate) {
      enqueue(grid_over(tokens * pairs.count), rotary_kernel<accumulate.value, T>, y.grad.as<T>(),
              x.as<const T>(), positions.as<const int32_t>(), tokens, C, pairs);
    });
  });
}

}  // namespace accrue::cuda
