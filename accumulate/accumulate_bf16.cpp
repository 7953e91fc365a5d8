#include "accumulate/accumulate_bf16.h"

#include "accumulate/stochastic_rounding.h"
#include "core/ceil_div.h"
#include "kernels/backend.h"

namespace accrue {
namespace cpu {

void accumulate_bf16(GradTarget sum, View g, const RoundingKey& key) {
  constexpr int64_t tile = 64;  // elements whose random bits are drawn together, in vectors
  constexpr int64_t calls = tile / RoundingBits::elements_of_call;
  const RoundingBits random(key.seed, *step_outcome(key.window));
  const int64_t n = g.numel();
  BFloat16* const sums = sum.grad.as<BFloat16>();
  const float* const gradients = g.as<const float>();
  with_beta(sum.beta, [&](auto accumulates) {
    parallel_for(ceil_div(n, tile), 2 * tile, [&](int64_t begin, int64_t end) {
      uint32_t words[tile / 2];
      for (int64_t first = begin * tile; first < std::min(end * tile, n); first += tile) {
        random.draw<calls>(words, key.first + first);
        BFloat16* const out = sums + first;
        const float* const in = gradients + first;
        for (int64_t i = 0; i < std::min(tile, n - first); ++i) {
          float value = in[i];
          if constexpr (accumulates.value) value += out[i];
          out[i] = round_stochastically(value, RoundingBits::of(words, i));
        }
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::accumulate_bf16) accumulate_bf16;
}  // namespace cuda

void accumulate_bf16(GradTarget sum, View g, const RoundingKey& key) {
  const View& to = sum.grad;
  check(to.shape == g.shape && to.device == g.device && to.dtype == DType::bf16 &&
            g.dtype == DType::f32,
        "[accumulate_bf16] sum {} {} on {} and g {} {} on {}: expected bf16 and f32 of one shape",
        name(to.dtype), to.shape, name(to.device), name(g.dtype), g.shape, name(g.device));
  const auto is_aligned = [](const View& x) {
    return reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  };
  check(key.first % RoundingBits::elements_of_call == 0 && is_aligned(to) && is_aligned(g),
        "[accumulate_bf16] sum and g from element {} on: expected a multiple of {}, at addresses "
        "that are multiples of 16",
        key.first, RoundingBits::elements_of_call);
  launch<cpu::accumulate_bf16, cuda::accumulate_bf16>(g.device, sum, g, key);
}

}  // namespace accrue
