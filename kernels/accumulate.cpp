#include "kernels/accumulate.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

void accumulate(View sum, View g, double scale) {
  dispatch_floating(g.dtype, [&]<class T>() {
    T* out = sum.as<T>();
    const T* in = g.as<T>();
    const T s = static_cast<T>(scale);
    parallel_for(g.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] += s * in[i];
    });
  });
}

// Sixty-four independent sums hide the latency of the addition.
template <class T>
double sum_of_squares(const T* in, int64_t n) {
  constexpr int64_t lanes = 64;
  T sum[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) sum[lane] += in[i + lane] * in[i + lane];
  for (; i < n; ++i) sum[i % lanes] += in[i] * in[i];
  return std::accumulate(sum, sum + lanes, 0.0);
}

void gradient_norm(GradientNorm& result, View g) {
  constexpr int64_t block = 4096;
  const int64_t P = g.numel(), blocks = (P + block - 1) / block;
  std::vector<double> partial(static_cast<size_t>(blocks));
  dispatch_floating(g.dtype, [&]<class T>() {
    const T* in = g.as<T>();
    parallel_for(blocks, block, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const int64_t end = std::min(P, (b + 1) * block);
        partial[static_cast<size_t>(b)] = sum_of_squares(in + b * block, end - b * block);
      }
    });
    // A finite gradient may still overflow when squared: only then look at each element.
    result.sum_of_squares = std::accumulate(partial.begin(), partial.end(), 0.0);
    result.finite = std::isfinite(result.sum_of_squares) ||
                    std::all_of(in, in + P, [](T v) { return std::isfinite(v); });
    if (result.finite && !std::isfinite(result.sum_of_squares))
      result.sum_of_squares = std::transform_reduce(in, in + P, 0.0, std::plus(),
                                                    [](T v) { return double(v) * double(v); });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::accumulate) accumulate;
decltype(cpu::gradient_norm) gradient_norm;
}  // namespace cuda

void accumulate(View sum, View g, double scale) {
  check(sum.shape == g.shape && sum.dtype == g.dtype && sum.device == g.device,
        "[accumulate] sum {} {} and g {} {}", name(sum.dtype), sum.shape, name(g.dtype), g.shape);
  launch<cpu::accumulate, cuda::accumulate>(g.device, sum, g, scale);
}

GradientNorm gradient_norm(View g) {
  GradientNorm result;
  launch<cpu::gradient_norm, cuda::gradient_norm>(g.device, result, g);
  return result;
}

}  // namespace accrue
