#include "kernels/step/combine_ranks.h"

#include "kernels/backend.h"
#include "kernels/detail/rank_terms.h"

namespace accrue {
namespace cpu {
namespace {

template <class Add>
void combine(View y, View x, Add add) {
  const int64_t R = x.shape[0], n = x.shape[1];
  dispatch_wide(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T* in = x.as<const T>();
    parallel_each(n, R, [&](int64_t i) {
      const double first = double(in[i]);
      double so_far = first;
      for (int64_t r = 1; r < R; ++r) so_far = add(so_far, first, r, double(in[r * n + i]));
      out[i] = static_cast<T>(so_far);
    });
  });
}

}  // namespace

void sum_ranks(View y, View x) { combine(y, x, SumOfRanks{}); }
void mean_ranks(View y, View x, View weights) {
  combine(y, x, MeanOfRanks{weights.as<const double>()});
}

}  // namespace cpu

namespace cuda {
decltype(cpu::sum_ranks) sum_ranks;
decltype(cpu::mean_ranks) mean_ranks;
}  // namespace cuda

namespace {

void check_rows(std::string_view op, const View& y, const View& x) {
  check(x.shape.rank() == 2 && x.shape[0] > 0 && y.shape == Shape{x.shape[1]} &&
            y.dtype == x.dtype && y.device == x.device,
        "[{}] y {} {} on {} and x {} {} on {}: expected x [R, n] and y [n] of one dtype on one "
        "device",
        op, name(y.dtype), y.shape, name(y.device), name(x.dtype), x.shape, name(x.device));
}

}  // namespace

void sum_ranks(View y, View x) {
  check_rows("sum_ranks", y, x);
  launch<cpu::sum_ranks, cuda::sum_ranks>(y.device, y, x);
}

void mean_ranks(View y, View x, View weights) {
  check_rows("mean_ranks", y, x);
  check(weights.shape == Shape{x.shape[0]} && weights.dtype == DType::f64 &&
            weights.device == x.device,
        "[mean_ranks] weights {} {} on {}: expected f64 [{}] on {}", name(weights.dtype),
        weights.shape, name(weights.device), x.shape[0], name(x.device));
  launch<cpu::mean_ranks, cuda::mean_ranks>(y.device, y, x, weights);
}

}  // namespace accrue
