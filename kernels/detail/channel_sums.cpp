#include "kernels/detail/channel_sums.h"

#include "kernels/parallel.h"

namespace accrue::cpu {

void channel_sum(GradTarget db, View dy, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const int64_t N = dy.shape[0], C = dy.shape[1], P = dy.shape.numel(2, dy.shape.rank());
        parallel_for(C, N * P, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            W sum = 0;
            for (int64_t n = 0; n < N; ++n) {
              const T* plane = dy.as<T>() + (n * C + c) * P;
              W plane_sum = 0;
#pragma omp simd reduction(+ : plane_sum)
              for (int64_t p = 0; p < P; ++p) plane_sum += plane[p];
              sum += plane_sum;
            }
            W& out = db.grad.as<W>()[c];
            out = blend(sum, db.beta, out);
          }
        });
      });
}

}  // namespace accrue::cpu
