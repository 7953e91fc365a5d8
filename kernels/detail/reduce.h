#pragma once

#include <algorithm>
#include <cstdint>

namespace accrue::cpu {

// sum_i term(i) for i in [0, n). Runs of `run` terms are added in T, where the compiler can
// vectorise, and the runs in double: the rounding error is at most that of `run` terms, whatever n.
template <class T, class Term>
double sum_of(int64_t n, Term&& term) {
  constexpr int64_t run = 256;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += run) {
    const int64_t end = std::min(n, begin + run);
    T part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = begin; i < end; ++i) part += term(i);
    sum += static_cast<double>(part);
  }
  return sum;
}

}  // namespace accrue::cpu
