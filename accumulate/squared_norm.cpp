#include "accumulate/squared_norm.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/backend.h"

namespace accrue {
namespace cpu {
namespace {

// Sixty-four independent sums hide the latency of the addition. They are in Wide<T> first; if they
// overflow, the sum is computed again in double.
template <class T>
double sum_of_squares(const T* in, int64_t n) {
  constexpr int64_t lanes = 64;
  Wide<T> sum[lanes] = {};
  const auto add = [&](int64_t lane, Wide<T> v) { sum[lane] += v * v; };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) add(lane, in[i + lane]);
  for (; i < n; ++i) add(i % lanes, in[i]);
  const double total = std::accumulate(sum, sum + lanes, 0.0);
  if (std::isfinite(total)) return total;
  return std::transform_reduce(in, in + n, 0.0, std::plus(),
                               [](T v) { return double(v) * double(v); });
}

}  // namespace

void squared_norm(GradTarget partials, View g) {
  const int64_t P = g.numel(), places = norm_partials;
  double* out = partials.grad.as<double>();
  dispatch_floating(g.dtype, [&]<class T>() {
    parallel_for(places, P / places + 1, [&](int64_t first, int64_t last) {
      for (int64_t j = first; j < last; ++j) {
        const int64_t begin = P * j / places, end = P * (j + 1) / places;
        out[j] = blend(sum_of_squares(g.as<const T>() + begin, end - begin), partials.beta, out[j]);
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::squared_norm) squared_norm;
}  // namespace cuda

void squared_norm(GradTarget partials, View g) {
  check(partials.grad.shape == Shape{norm_partials} && partials.grad.dtype == DType::f64,
        "[squared_norm] partials {} {}: expected f64 [{}]", name(partials.grad.dtype),
        partials.grad.shape, norm_partials);
  launch<cpu::squared_norm, cuda::squared_norm>(g.device, partials, g);
}

}  // namespace accrue
