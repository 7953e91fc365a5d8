#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/depthwise_passes.h"
#include "kernels/cpu/micro_kernel.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Depthwise convolutions by 3x3 filters with a stride of 1, whose vectors are read where the pixels
// lie: the lanes of a vector that lie outside the image are not read and are 0.
namespace accrue::cpu::depthwise {

inline constexpr int direct_taps = 3;

// True if a product needs no frames.
inline bool is_direct(const ConvGeometry& g, DType dtype) {
#if defined(__AVX512F__)
  return dtype == DType::f32 && g.KH == direct_taps && g.KW == direct_taps && g.O == g.C &&
         g.stride == detail::PerAxis(1) && g.dilation == detail::PerAxis(1);
#else
  return static_cast<void>(g), static_cast<void>(dtype), false;
#endif
}

#if defined(__AVX512F__)

using Lane16 = Lanes<float>;
using Mask = __mmask16;

inline Lane16 load_where(Mask mask, const float* from) {
  return Lane16(_mm512_maskz_loadu_ps(mask, from));
}
// Lanes of `first`, first + 1, ... that lie in [0, size).
inline Mask lanes_within(int64_t first, int64_t size) {
  const auto bits_below = [](int64_t n) { return (1u << std::clamp<int64_t>(n, 0, 16)) - 1; };
  return static_cast<Mask>(bits_below(size - first) & ~bits_below(-first));
}

// Pixel (h, w) of the target is the sum of weights[k * 3 + j] * source(h - top + k, w - left + j).
struct DirectPlanes {
  int64_t source_H, source_W, target_H, target_W, top, left;

  DirectPlanes(Direction direction, const ConvGeometry& g)
      : source_H(g.H),
        source_W(g.W),
        target_H(g.GH),
        target_W(g.GW),
        top(g.padding.h),
        left(g.padding.w) {
    if (direction == Direction::gather) return;
    std::swap(source_H, target_H), std::swap(source_W, target_W);
    top = direct_taps - 1 - top, left = direct_taps - 1 - left;
  }

  // The rows s, s + 1, ... of three vectors that column v of the target draws from.
  struct Columns {
    const float* plane;
    int64_t first, width, height;
    Mask masks[direct_taps];

    void load(Lane16 (&pixels)[direct_taps], int64_t h) const {
      const bool is_inside = 0 <= h && h < height;
      const float* const row = plane + (is_inside ? h : 0) * width + first;
#pragma GCC unroll 3
      for (int j = 0; j < direct_taps; ++j)
        pixels[j] = load_where(is_inside ? masks[j] : Mask(0), row + j);
    }
  };
  Columns columns(const float* plane, int64_t v, Mask read) const {
    Columns c{plane, v - left, source_W, source_H, {}};
    for (int j = 0; j < direct_taps; ++j)
      c.masks[j] = static_cast<Mask>(lanes_within(v - left + j, source_W) & read);
    return c;
  }
};

// Rows of a target that share the pixels that they draw from.
inline constexpr int direct_rows = 7;

// f(i, k, pixels) for each of those rows, i, and each row k of the filter, where tap (k, j) reads
// pixels[j] for row first + i. Loads each row of pixels once.
template <class F>
[[gnu::always_inline]] inline void for_each_row_of_taps(const DirectPlanes::Columns& from,
                                                        int64_t first, F f) {
  constexpr int rows = direct_rows, taps = direct_taps;
  for_each_of(
      std::make_integer_sequence<int, rows + taps - 1>(), [&](auto s) __attribute__((
                                                              always_inline)) {
        Lane16 pixels[taps];
        from.load(pixels, first + s);
        for_each_of(
            std::make_integer_sequence<int, rows>(), [&](auto i) __attribute__((always_inline)) {
              constexpr int k = s - i;
              if constexpr (k >= 0 && k < taps) f(i, std::integral_constant<int, k>(), pixels);
            });
      });
}

// target = the sums + shift + beta * target.
inline void multiply_directly(float* target, const float* source, const float* weights, float shift,
                              bool adds, const DirectPlanes& p) {
  constexpr int rows = direct_rows, taps = direct_taps;
  Lane16 weight[taps * taps];
  for (int k = 0; k < taps * taps; ++k) weight[k] = Lane16(_mm512_set1_ps(weights[k]));
  for (int64_t r = 0; r < p.target_H; r += rows)
    for (int64_t v = 0; v < p.target_W; v += lanes<float>) {
      const DirectPlanes::Columns from = p.columns(source, v, Mask(~0));
      Lane16 sum[rows] = {};
      for_each_row_of_taps(
          from, r - p.top, [&](auto i, auto k, const auto& pixels) __attribute__((always_inline)) {
#pragma GCC unroll 3
            for (int j = 0; j < taps; ++j) sum[i] += weight[k * taps + j] * pixels[j];
          });
      const Mask mask = lanes_within(v, p.target_W);
      float* const out = target + r * p.target_W + v;
      const int64_t count = p.target_H - r;
      for_each_of(
          std::make_integer_sequence<int, rows>(), [&](auto i) __attribute__((always_inline)) {
            if (i >= count) return;
            float* const row = out + i * p.target_W;
            const Lane16 y = sum[i] + shift;
            _mm512_mask_storeu_ps(row, mask, __m512(adds ? y + load_where(mask, row) : y));
          });
    }
}

// sums[k * 3 + j] += the products of tap (k, j) with the cells of a grid, lane by lane.
inline void correlate_directly(Lane16* sums, const float* grid, const float* image,
                               const DirectPlanes& p) {
  constexpr int rows = direct_rows, taps = direct_taps;
  Lane16 sum[taps][taps];
  for (int k = 0; k < taps; ++k)
    for (int j = 0; j < taps; ++j) sum[k][j] = sums[k * taps + j];
  for (int64_t r = 0; r < p.target_H; r += rows)
    for (int64_t v = 0; v < p.target_W; v += lanes<float>) {
      const Mask mask = lanes_within(v, p.target_W);
      const DirectPlanes::Columns from = p.columns(image, v, mask);
      Lane16 cells[rows];
#pragma GCC unroll 7
      for (int i = 0; i < rows; ++i) {
        const bool is_inside = r + i < p.target_H;
        cells[i] =
            load_where(is_inside ? mask : Mask(0), grid + (is_inside ? r + i : 0) * p.target_W + v);
      }
      for_each_row_of_taps(
          from, r - p.top, [&](auto i, auto k, const auto& pixels) __attribute__((always_inline)) {
#pragma GCC unroll 3
            for (int j = 0; j < taps; ++j) sum[k][j] += cells[i] * pixels[j];
          });
    }
  for (int k = 0; k < taps; ++k)
    for (int j = 0; j < taps; ++j) sums[k * taps + j] = sum[k][j];
}

#endif

}  // namespace accrue::cpu::depthwise
