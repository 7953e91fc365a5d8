#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

// Sums and maxima in lanes that the compiler makes vectors of, which it does not of a reduction: an
// order of their own, the same for every width of vectors.
namespace accrue::cpu {

// The lanes, and the first of them, which take the rest of a row before its last few terms.
inline constexpr int64_t sum_lanes = 32, few_lanes = 8;

// sum_i term(i) for i in [0, n), where term() may write to i's place in an array. Runs of at most
// 1024 terms are added in T, each lane every 32nd of them, and the runs in double.
template <class T, class Term>
double sum_in_lanes(int64_t n, Term&& term) {
  constexpr int64_t run = 1024;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += run) {
    const int64_t end = std::min(n, begin + run);
    T lane[sum_lanes] = {};
    int64_t i = begin;
    for (; i + sum_lanes <= end; i += sum_lanes) {
#pragma omp simd
      for (int64_t l = 0; l < sum_lanes; ++l) lane[l] += term(i + l);
    }
    for (; i + few_lanes <= end; i += few_lanes) {
#pragma omp simd
      for (int64_t l = 0; l < few_lanes; ++l) lane[l] += term(i + l);
    }
    for (int64_t l = 0; i < end; ++i, ++l) lane[l] += term(i);
#pragma GCC unroll 8
    for (int64_t half = sum_lanes / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    sum += static_cast<double>(lane[0]);
  }
  return sum;
}

// The largest of sign * x[i], where a NaN is none; -infinity if there is nothing else.
template <class T>
T largest_of(const T* x, int64_t n, T sign = 1) {
  T lane[sum_lanes];
  std::fill_n(lane, sum_lanes, -std::numeric_limits<T>::infinity());
  const auto take = [&](T& largest, T value) { largest = value > largest ? value : largest; };
  int64_t i = 0;
  for (; i + sum_lanes <= n; i += sum_lanes)
    for (int64_t l = 0; l < sum_lanes; ++l) take(lane[l], sign * x[i + l]);
  for (; i + few_lanes <= n; i += few_lanes)
    for (int64_t l = 0; l < few_lanes; ++l) take(lane[l], sign * x[i + l]);
  for (int64_t l = 0; i < n; ++i, ++l) take(lane[l], sign * x[i]);
#pragma GCC unroll 8
  for (int64_t half = sum_lanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) take(lane[l], lane[l + half]);
  return lane[0];
}

// True if one of x is NaN.
template <class T>
bool has_nan(const T* x, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= x[i] != x[i];
  return found != 0;
}

}  // namespace accrue::cpu
