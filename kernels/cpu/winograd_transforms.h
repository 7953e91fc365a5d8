#pragma once

#include <cstdint>

#include "kernels/cpu/micro_kernel.h"

// Winograd's minimal filtering with the points 0, 1, -1 and infinity (Lavin and Gray 2016). It
// takes four multiplications instead of six for two results of three taps, or for three results of
// two taps. In one dimension, for four elements d in a row:
//    y[i] = d[i] g[0] + d[i+1] g[1] + d[i+2] g[2] = A^T ((G g) (B^T d)), i < 2
//    w[i] = d[i] e[0] + d[i+1] e[1]               = C^T ((F e) (B^T d)), i < 3
// The functions below multiply by the five matrices. They work on vectors, each lane of which is a
// separate problem. In two dimensions each is applied to columns, then to rows: 16 multiplications
// instead of 36.
namespace accrue::cpu::winograd {

inline constexpr int points = 4, taps = 3, cells = 2;

// B^T d
inline constexpr auto pixels =
    []<class V>(const V (&d)[points], V (&out)[points]) __attribute__((always_inline)) {
  out[0] = d[0] - d[2];
  out[1] = d[1] + d[2];
  out[2] = d[2] - d[1];
  out[3] = d[1] - d[3];
};
// G g
inline constexpr auto weights =
    []<class V>(const V (&g)[taps], V (&out)[points]) __attribute__((always_inline)) {
  const V outer = 0.5f * (g[0] + g[2]), inner = 0.5f * g[1];
  out[0] = g[0];
  out[1] = outer + inner;
  out[2] = outer - inner;
  out[3] = g[2];
};
// A^T m
inline constexpr auto results =
    []<class V>(const V (&m)[points], V (&out)[cells]) __attribute__((always_inline)) {
  out[0] = m[0] + m[1] + m[2];
  out[1] = m[1] - m[2] - m[3];
};
// F e
inline constexpr auto slopes =
    []<class V>(const V (&e)[cells], V (&out)[points]) __attribute__((always_inline)) {
  out[0] = e[0];
  out[1] = 0.5f * (e[0] + e[1]);
  out[2] = 0.5f * (e[0] - e[1]);
  out[3] = e[1];
};
// C^T m
inline constexpr auto weight_slopes =
    []<class V>(const V (&m)[points], V (&out)[taps]) __attribute__((always_inline)) {
  out[0] = m[0] + m[1] + m[2];
  out[1] = m[1] - m[2];
  out[2] = m[1] + m[2] - m[3];
};

// out(i, j) = (M in M^T)[i, j] for i, j < to. `step` multiplies M by a vector of `from` elements.
template <class V, int from, int to, class Step, class In, class Out>
[[gnu::always_inline]] inline void in_two_dimensions(Step step, In in, Out out) {
  V columns[to][from];
#pragma GCC unroll 4
  for (int j = 0; j < from; ++j) {
    V column[from], made[to];
#pragma GCC unroll 4
    for (int i = 0; i < from; ++i) column[i] = in(i, j);
    step(column, made);
#pragma GCC unroll 4
    for (int i = 0; i < to; ++i) columns[i][j] = made[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < to; ++i) {
    V row[to];
    step(columns[i], row);
#pragma GCC unroll 4
    for (int j = 0; j < to; ++j) out(i, j, row[j]);
  }
}

}  // namespace accrue::cpu::winograd
