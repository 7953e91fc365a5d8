#include "kernels/detail/channel_sums.h"

#include "kernels/parallel.h"

namespace accrue {
namespace cpu {

void channel_sum(GradTarget db, View dy, View) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const int64_t N = dy.shape[0], C = dy.shape[1], P = dy.shape.numel(2, dy.shape.rank());
        parallel_each(C, N * P, [&](int64_t c) {
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
        });
      });
}

}  // namespace cpu

void sum_channels(GradTarget db, const View& dy) {
  const Shape& x = dy.shape;
  launch<cpu::channel_sum, cuda::channel_sum>(
      dy.device, db, dy,
      channel_sums_scratch(1, x[0], x[1], x.numel(2, x.rank()), dy.dtype, dy.device).view());
}

}  // namespace accrue
