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

void map_backward(GradTarget dx, View dy, View kept, const formula::AnyPointwise& formula);
void bias_backward(GradTarget db, View dz);

void slope_and_sums(View dy, GradTarget db, View z, const formula::AnyPointwise& f, View) {
  map_backward({dy, 0}, dy, z, f);
  bias_backward(db, dy);
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::slope_and_sums> {
  Work operator()(const View& dy, const GradTarget& db, const View& z, const auto&...) const {
    return work_of(0, dy, dy, db, z);
  }
};

void sum_channels(GradTarget db, const View& dy) {
  const Shape& x = dy.shape;
  launch<cpu::channel_sum, cuda::channel_sum>(
      dy.device, db, dy,
      channel_sums_scratch(1, x[0], x[1], x.numel(2, x.rank()), dy.dtype, dy.device).view());
}

}  // namespace accrue
