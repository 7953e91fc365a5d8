#include "accumulate/accumulate_bf16.h"
#include "accumulate/stochastic_rounding.h"
#include "core/ceil_div.h"
#include "kernels/detail/elementwise.cuh"

namespace accrue::cuda {
namespace {

// sum = round(g + beta * sum). A thread processes the eight consecutive elements that share one
// call of Philox, so no call is made twice: two 16-byte loads of g, one load and one store of the
// sum. The ten rounds of a call take some ten operations per element, which a GPU does in less time
// than it moves the eight bytes. The next thread takes the next eight elements. With the
// grid-stride loop, the device reads one contiguous window of each array at a time. The thread of
// the last call also processes the elements after the last whole vector, at most seven.
template <int width, bool accumulates>
__global__ void __launch_bounds__(block_threads)
    accumulate_bf16_kernel(BFloat16* sum, const float* g, int64_t n, uint64_t seed,
                           int64_t first_call, const StepOutcome* window) {
  static_assert(width == RoundingBits::elements_of_call);
  const RoundingBits random(seed, *window);
  const auto add = [](BFloat16& to, float value, uint32_t bits) {
    if constexpr (accumulates) value += to;
    to = round_stochastically(value, bits);
  };
  for (int64_t call = first_item(); call * width < n; call += item_stride()) {
    uint32_t words[RoundingBits::words_of_call];
    random.draw<1>(words, (first_call + call) * width);
    if ((call + 1) * width <= n) {
      const Vector<float, width> in = load_vector<width>(g, call);
      Vector<BFloat16, width> out;
      if constexpr (accumulates) out = load_vector<width>(sum, call);
      for (int i = 0; i < width; ++i) add(out.values[i], in.values[i], RoundingBits::of(words, i));
      store_vector(sum, call, out);
    } else {
      for (int i = 0; i < width; ++i)
        if (const int64_t at = call * width + i; at < n)
          add(sum[at], g[at], RoundingBits::of(words, i));
    }
  }
}

}  // namespace

void accumulate_bf16(GradTarget sum, View g, const RoundingKey& key) {
  const int64_t n = g.numel();
  if (n == 0) return;
  constexpr int width = RoundingBits::elements_of_call;
  with_beta(sum.beta, [&](auto accumulates) {
    enqueue(grid_over(ceil_div<int64_t>(n, width)),
            accumulate_bf16_kernel<width, accumulates.value>, sum.grad.as<BFloat16>(),
            g.as<const float>(), n, key.seed, key.first / width, step_outcome(key.window));
  });
}

}  // namespace accrue::cuda
