#pragma once

#include <array>
#include <utility>

#include "kernels/cpu/depthwise_frames.h"

// The sums of a depthwise convolution over the rows of a frame.
namespace accrue::cpu::depthwise {

// Rows of target and source as a pass sees them: tap (k, j) of target row r, column v is
// frame[(r * source_step + k * apart) * row_size + column_at[j] + v].
template <class T>
struct Rows {
  const T* frame;
  int64_t row_size;
  const int64_t* column_at;
  int64_t taps_h, taps_w, source_step, apart;
  int64_t rows, vectors;  // of the target

  const T* at(int64_t row, int64_t j) const { return frame + row * row_size + column_at[j]; }
};

// result[r * stride + v] (+)= sum of w[k * taps_w + j] times tap (k, j). Rows behind the last, as
// many as most_rows - 1, may be written, too.
template <class T>
struct Sums {
  T* result;
  int64_t stride;
  const T* w;
  Result mode;
};

template <class Function, int... i>
[[gnu::always_inline]] inline void for_each_of(std::integer_sequence<int, i...>, Function f) {
  (f(std::integral_constant<int, i>()), ...);
}

// A block of the target. Each vector of the source is loaded once for all rows that draw from it.
template <class T, int KH, int KW, int step, int rows, int vectors>
[[gnu::always_inline]] inline void multiply_rows(const Rows<T>& x, const Sums<T>& y, int64_t row,
                                                 int64_t column) {
  Lanes<T> sum[rows][vectors];
  T* const out = y.result + row * y.stride + column;
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = y.mode == Result::add ? load(out + r * y.stride + v * lanes<T>) : Lanes<T>{};
  const T* in[KW];
  for (int j = 0; j < KW; ++j) in[j] = x.at(row * step, j) + column;
  for_each_of(
      std::make_integer_sequence<int, step*(rows - 1) + KH>(), [&](auto s) __attribute__((
                                                                   always_inline)) {
        const int64_t from = s * x.row_size;
#pragma GCC unroll 8
        for (int j = 0; j < KW; ++j) {
          Lanes<T> pixels[vectors];
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) pixels[v] = load(in[j] + from + v * lanes<T>);
          for_each_of(
              std::make_integer_sequence<int, rows>(), [&](auto r) __attribute__((always_inline)) {
                constexpr int k = s - step * r;
                if constexpr (k >= 0 && k < KH) {
                  const T weight = y.w[k * KW + j];
#pragma GCC unroll 4
                  for (int v = 0; v < vectors; ++v) sum[r][v] += weight * pixels[v];
                }
              });
        }
      });
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) store_lanes(out + r * y.stride + v * lanes<T>, sum[r][v]);
}

template <class T, int KH, int KW, int step>
void multiply_plane(const Rows<T>& x, const Sums<T>& y) {
  int64_t v = 0;
  for (; v + 2 <= x.vectors; v += 2)
    for (int64_t r = 0; r < x.rows; r += 4)
      multiply_rows<T, KH, KW, step, 4, 2>(x, y, r, v * lanes<T>);
  if (v < x.vectors)
    for (int64_t r = 0; r < x.rows; r += most_rows)
      multiply_rows<T, KH, KW, step, most_rows, 1>(x, y, r, v * lanes<T>);
}

// The same for any number of taps.
template <class T>
void multiply_any_plane(const Rows<T>& x, const Sums<T>& y) {
  constexpr int rows = 4;
  for (int64_t r = 0; r < x.rows; r += rows)
    for (int64_t v = 0; v < x.vectors * lanes<T>; v += lanes<T>) {
      Lanes<T> sum[rows];
      T* const out = y.result + r * y.stride + v;
      for (int i = 0; i < rows; ++i)
        sum[i] = y.mode == Result::add ? load(out + i * y.stride) : Lanes<T>{};
      for (int64_t k = 0; k < x.taps_h; ++k)
        for (int64_t j = 0; j < x.taps_w; ++j) {
          const T weight = y.w[k * x.taps_w + j];
#pragma GCC unroll 4
          for (int i = 0; i < rows; ++i)
            sum[i] += weight * load(x.at((r + i) * x.source_step + k * x.apart, j) + v);
        }
      for (int i = 0; i < rows; ++i) store_lanes(out + i * y.stride, sum[i]);
    }
}

// sums[k * taps_w + j] += the products of tap (k, j) with the grid's rows, lane by lane. The grid
// has whole vectors in each row, and rows of zeros behind the last.
template <class T>
struct Products {
  Lanes<T>* sums;
  const T* grid;
  int64_t stride;
};

inline constexpr int correlated_rows = 4;

template <class T, int KH, int KW, int step, int j_begin, int width>
[[gnu::always_inline]] inline void correlate_columns(const Rows<T>& x, const Products<T>& y) {
  constexpr int rows = correlated_rows;
  Lanes<T> sum[KH][width];
  for (int k = 0; k < KH; ++k)
    for (int j = 0; j < width; ++j) sum[k][j] = y.sums[k * KW + j_begin + j];
  for (int64_t row = 0; row < x.rows; row += rows) {
    const T* in[width];
    for (int j = 0; j < width; ++j) in[j] = x.at(row * step, j_begin + j);
    for (int64_t v = 0; v < x.vectors * lanes<T>; v += lanes<T>) {
      Lanes<T> cells[rows];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) cells[r] = load(y.grid + (row + r) * y.stride + v);
      for_each_of(
          std::make_integer_sequence<int, step*(rows - 1) + KH>(), [&](auto s) __attribute__((
                                                                       always_inline)) {
#pragma GCC unroll 8
            for (int j = 0; j < width; ++j) {
              const Lanes<T> pixels = load(in[j] + s * x.row_size + v);
              for_each_of(
                  std::make_integer_sequence<int, rows>(), [&](auto r)
                                                               __attribute__((always_inline)) {
                                                                 constexpr int k = s - step * r;
                                                                 if constexpr (k >= 0 && k < KH)
                                                                   sum[k][j] += cells[r] * pixels;
                                                               });
            }
          });
    }
  }
  for (int k = 0; k < KH; ++k)
    for (int j = 0; j < width; ++j) y.sums[k * KW + j_begin + j] = sum[k][j];
}

// As many columns of taps at once as registers hold the sums of.
template <class T, int KH, int KW, int step, int j = 0>
void correlate_plane(const Rows<T>& x, const Products<T>& y) {
  constexpr int fitting = std::max(1, (vector_registers - correlated_rows - 2) / KH);
  constexpr int width = std::min(KW - j, fitting);
  correlate_columns<T, KH, KW, step, j, width>(x, y);
  if constexpr (j + width < KW) correlate_plane<T, KH, KW, step, j + width>(x, y);
}

template <class T>
void correlate_any_plane(const Rows<T>& x, const Products<T>& y) {
  for (int64_t k = 0; k < x.taps_h; ++k)
    for (int64_t j = 0; j < x.taps_w; ++j) {
      Lanes<T>& sum = y.sums[k * x.taps_w + j];
      for (int64_t r = 0; r < x.rows; ++r) {
        const T* const in = x.at(r * x.source_step + k * x.apart, j);
        for (int64_t v = 0; v < x.vectors * lanes<T>; v += lanes<T>)
          sum += load(y.grid + r * y.stride + v) * load(in + v);
      }
    }
}

template <class T>
using MultiplyPlane = void (*)(const Rows<T>&, const Sums<T>&);
template <class T>
using CorrelatePlane = void (*)(const Rows<T>&, const Products<T>&);

// The passes with a constant number of taps, in float32, for kernels 3x3, 5x5 and 7x7 with a row
// step of 1 and 2, and for the phases that a scatter with a step of 2 has.
struct Passes {
  int64_t taps_h, taps_w, source_step;
  MultiplyPlane<float> multiply;
  CorrelatePlane<float> correlate;
};
template <int K, int step>
constexpr Passes whole{K, K, step, multiply_plane<float, K, K, step>,
                       correlate_plane<float, K, K, step>};
template <int rows, int K>
constexpr Passes phase{rows, K, 1, multiply_plane<float, rows, K, 1>, nullptr};
inline constexpr std::array passes{whole<3, 1>, whole<3, 2>, whole<5, 1>, whole<5, 2>,
                                   whole<7, 1>, whole<7, 2>, phase<1, 3>, phase<2, 3>,
                                   phase<2, 5>, phase<3, 5>, phase<3, 7>, phase<4, 7>};

// Returns the passes for these rows, or null.
template <class T>
const Passes* passes_for(const Rows<T>& x) {
  if constexpr (std::is_same_v<T, float>)
    for (const Passes& each : passes)
      if (x.apart == 1 && each.taps_h == x.taps_h && each.taps_w == x.taps_w &&
          each.source_step == x.source_step)
        return &each;
  return nullptr;
}

template <class T>
void multiply(const Rows<T>& x, const Sums<T>& y) {
  if constexpr (std::is_same_v<T, float>)
    if (const Passes* const found = passes_for(x)) return found->multiply(x, y);
  multiply_any_plane(x, y);
}

template <class T>
void correlate(const Rows<T>& x, const Products<T>& y) {
  if constexpr (std::is_same_v<T, float>)
    if (const Passes* const found = passes_for(x); found && found->correlate)
      return found->correlate(x, y);
  correlate_any_plane(x, y);
}

}  // namespace accrue::cpu::depthwise
