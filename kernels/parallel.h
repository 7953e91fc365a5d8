#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace accrue {

// Work (elements touched) below which a loop stays on one thread: a barrier costs microseconds on
// an idle machine and milliseconds on a busy one.
inline constexpr int64_t parallel_grain = 32768;

// The threads that a loop of n items, each touching work_per_item elements, is worth.
inline int threads_for(int64_t n, int64_t work_per_item) {
  const int64_t useful = std::max<int64_t>(1, n * work_per_item / parallel_grain);
  return static_cast<int>(
      std::min<int64_t>({omp_get_max_threads(), useful, std::max<int64_t>(n, 1)}));
}

// Calls body(begin, end) on disjoint ranges that cover [0, n), one range a thread. The split
// depends on n and the thread count alone, so results are the same from run to run.
template <class Body>
void parallel_for(int64_t n, int64_t work_per_item, Body&& body) {
  const int threads = threads_for(n, work_per_item);
  if (threads == 1) {
    body(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t t = omp_get_thread_num(), count = omp_get_num_threads();
    body(n * t / count, n * (t + 1) / count);
  }
}

}  // namespace accrue
