#include "kernels/segment_mean.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {
namespace cpu {
namespace {

constexpr int64_t sums_at_a_time = 64;

}  // namespace

// A thread owns segments, and adds up a few columns at a time, whose sums stay in its cache.
void segment_mean(View y, View x, View lengths) {
  const int64_t length = x.shape[1], E = x.shape[2], P = y.shape[1];
  const int32_t* of_segment = lengths.as<const int32_t>();
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    int64_t end = 0;
    for (int64_t p = 0; p < P; ++p) {
      const int64_t L = of_segment[n * P + p];
      check(L > 0 && (end += L) <= length,
            "[segment_mean] segment {} of row {} has {} elements and ends at {}: expected 1 or "
            "more, and {} in the row",
            p, n, L, end, length);
    }
  }
  dispatch_floating(x.dtype, [&]<class T>() {
    parallel_each(x.shape[0] * P, length * E / P, [&](int64_t segment) {
      const int64_t first = segment / P * P, L = of_segment[segment];
      const int64_t begin = std::accumulate(of_segment + first, of_segment + segment, int64_t{0});
      const T* in = x.as<const T>() + (segment / P * length + begin) * E;
      Wide<T>* out = y.as<Wide<T>>() + segment * E;
      for (int64_t e = 0; e < E; e += sums_at_a_time) {
        const int64_t width = std::min(sums_at_a_time, E - e);
        std::array<double, sums_at_a_time> sums{};
        for (int64_t t = 0; t < L; ++t)
          for (int64_t k = 0; k < width; ++k) sums[size_t(k)] += double(in[t * E + e + k]);
        for (int64_t k = 0; k < width; ++k)
          out[e + k] = static_cast<Wide<T>>(sums[size_t(k)] / double(L));
      }
    });
  });
}

// A thread owns rows.
void segment_mean_backward(GradTarget dx, View dy, View lengths) {
  const Shape& shape = dx.grad.shape;
  const int64_t length = shape[1], E = shape[2], P = dy.shape[1];
  const int32_t* of_segment = lengths.as<const int32_t>();
  dispatch_floating(dx.grad.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_each(shape[0], length * E, [&](int64_t n) {
        T* out = dx.grad.as<T>() + n * length * E;
        T* const row_end = out + length * E;
        for (int64_t segment = n * P; segment < (n + 1) * P; ++segment) {
          const Wide<T>* in = dy.as<const Wide<T>>() + segment * E;
          const Wide<T> share = Wide<T>(1) / static_cast<Wide<T>>(of_segment[segment]);
          for (int64_t t = 0; t < of_segment[segment]; ++t, out += E)
            for (int64_t e = 0; e < E; ++e) store(out[e], in[e] * share, accumulate);
        }
        for (; out < row_end; ++out) store(*out, Wide<T>(0), accumulate);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::segment_mean) segment_mean;
decltype(cpu::segment_mean_backward) segment_mean_backward;
}  // namespace cuda

Tensor segment_mean(const Tensor& x, const Tensor& lengths) {
  check_same("segment_mean", {&x});
  check(x.shape().rank() == 3 && lengths.dtype() == DType::i32 && lengths.shape().rank() == 2 &&
            lengths.size(0) == x.size(0) && lengths.device() == x.device(),
        "[segment_mean] x {} on {} and lengths {} {} on {}: expected x [N, T, E] and lengths i32 "
        "[N, P] on one device",
        x.shape(), name(x.device()), name(lengths.dtype()), lengths.shape(),
        name(lengths.device()));
  Tensor y = Tensor::empty({x.size(0), lengths.size(1), x.size(2)}, wide(x.dtype()), x.device());
  launch<cpu::segment_mean, cuda::segment_mean>(y.device(), y.view(), x.view(), lengths.view());
  const Edge edge = x;
  record("segment_mean", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad(edge))
      launch<cpu::segment_mean_backward, cuda::segment_mean_backward>(dy.device(), *dx, dy.view(),
                                                                      lengths.view());
  });
  return y;
}

}  // namespace accrue
