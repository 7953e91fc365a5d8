#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "kernels/cpu/micro_kernel.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace accrue::cpu {

// Two bfloat16, the first in the lower half. Processors with AVX512-BF16 multiply two of them by
// another two at once: a vector of pairs holds twice as many factors as a vector of floats.
using BFloat16Pair = uint32_t;

template <class F>
inline constexpr bool in_pairs = std::is_same_v<F, BFloat16Pair>;
template <class F>
inline constexpr int64_t elements_in = in_pairs<F> ? 2 : 1;

// True if this program and the processor have the instruction that multiplies pairs.
bool multiplies_bfloat16_pairs();

// out[v] = (first[v * step], second[v * step]); the second element is 0 if `second` is null.
inline void interleave(BFloat16Pair* out, const BFloat16* first, const BFloat16* second,
                       int64_t count, int64_t step = 1) {
  const auto pair = [=](int64_t v) {
    return BFloat16Pair{first[v].bits} | BFloat16Pair{second[v].bits} << 16;
  };
  if (!second) {
    for (int64_t v = 0; v < count; ++v) out[v] = first[v * step].bits;
  } else if (step == 1) {
#pragma omp simd
    for (int64_t v = 0; v < count; ++v) out[v] = pair(v);
  } else {
    for (int64_t v = 0; v < count; ++v) out[v] = pair(v * step);
  }
}

// The left factor of a product is a pair of any element and the one behind it. Sums are floats; the
// product of the second elements is added before the product of the first.
template <>
struct Arithmetic<BFloat16Pair> {
  using Sum = float;
  using Left = BFloat16;
  [[gnu::always_inline]] static BFloat16Pair left(const BFloat16* a) {
    BFloat16Pair pair;
    std::memcpy(&pair, a, sizeof pair);
    return pair;
  }
  [[gnu::always_inline]] static void add_product(Lanes<float>& sum, BFloat16Pair a,
                                                 const Lanes<BFloat16Pair>& b) {
#ifdef __AVX512BF16__
    const __m512i a_lanes = _mm512_set1_epi32(static_cast<int>(a));
    sum = reinterpret_cast<Lanes<float>>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum),
                                                          reinterpret_cast<__m512bh>(a_lanes),
                                                          reinterpret_cast<__m512bh>(b)));
#else
    constexpr BFloat16Pair second = 0xffff0000;
    sum += std::bit_cast<float>(a & second) * reinterpret_cast<Lanes<float>>(b & second);
    sum += std::bit_cast<float>(a << 16) * reinterpret_cast<Lanes<float>>(b << 16);
#endif
  }
};

}  // namespace accrue::cpu
