#include "kernels/accumulate.h"

#include <cmath>
#include <numeric>

#include "kernels/detail/accumulate_kernels.h"
#include "kernels/step/window_state.h"

namespace accrue {
namespace cpu {
namespace {

// Sixty-four independent sums hide the latency of the addition. Squares may overflow where double
// ones do not: only then add those.
template <class T>
double sum_of_squares(const T* in, int64_t n) {
  constexpr int64_t lanes = 64;
  T sum[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) sum[lane] += in[i + lane] * in[i + lane];
  for (; i < n; ++i) sum[i % lanes] += in[i] * in[i];
  const double total = std::accumulate(sum, sum + lanes, 0.0);
  if (std::isfinite(total)) return total;
  return std::transform_reduce(in, in + n, 0.0, std::plus(),
                               [](T v) { return double(v) * double(v); });
}

}  // namespace

void accumulate(View sum, View g, double scale, View state) {
  if (state.data && window_state(state)->kept == 0) return;
  dispatch_sum(sum, g, [&]<class T, class G>() {
    T* out = sum.as<T>();
    const G* in = g.as<const G>();
    const T s = static_cast<T>(scale);
    parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] += s * in[i];
    });
  });
}

void squared_norm(GradTarget partials, View g) {
  const int64_t P = g.numel(), places = norm_partials;
  double* out = partials.grad.as<double>();
  dispatch_wide(g.dtype, [&]<class T>() {
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
decltype(cpu::accumulate) accumulate;
decltype(cpu::squared_norm) squared_norm;
}  // namespace cuda

void accumulate(View sum, View g, double scale, View state) {
  const bool widens = (sum.dtype == DType::f32 && is_16_bit_dtype(g.dtype)) ||
                      (sum.dtype == DType::f64 && g.dtype == DType::f32);
  check(sum.shape == g.shape && sum.device == g.device && (sum.dtype == g.dtype || widens),
        "[accumulate] sum {} {} on {} and g {} {} on {}: expected the same, or g in 16 bits under "
        "a float32 sum, or in float32 under a float64 one",
        name(sum.dtype), sum.shape, name(sum.device), name(g.dtype), g.shape, name(g.device));
  launch<cpu::accumulate, cuda::accumulate>(g.device, sum, g, scale, state);
}

void squared_norm(GradTarget partials, View g) {
  check(partials.grad.shape == Shape{norm_partials} && partials.grad.dtype == DType::f64,
        "[squared_norm] partials {} {}: expected f64 [{}]", name(partials.grad.dtype),
        partials.grad.shape, norm_partials);
  launch<cpu::squared_norm, cuda::squared_norm>(g.device, partials, g);
}

}  // namespace accrue
