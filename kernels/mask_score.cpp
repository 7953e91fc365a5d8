#include "kernels/mask_score.h"

#include "kernels/detail/mask_score_kernels.h"
#include "kernels/judged.h"

namespace accrue {
namespace {

bool has_classes(View masks) { return masks.dtype == DType::i32; }

}  // namespace

namespace cpu {

void add_mask_score(View score, View x, View masks) {
  const int64_t N = x.shape[0], K = x.shape[1], P = x.shape[2] * x.shape[3];
  dispatch_floating(x.dtype, [&]<class T>() {
    const auto add = [&](int64_t k, auto&& is_found, auto&& is_wanted) {
      int64_t both = 0, found = 0, wanted = 0;
      for (int64_t n = 0; n < N; ++n)
        for (int64_t p = 0; p < P; ++p) {
          const bool in_a = is_found(n, p), in_b = is_wanted(n, p);
          both += in_a && in_b;
          found += in_a;
          wanted += in_b;
        }
      double* sums = score.as<double>() + 3 * k;
      sums[0] += static_cast<double>(both);
      sums[1] += static_cast<double>(found);
      sums[2] += static_cast<double>(wanted);
    };
    const T* in = x.as<T>();
    for (int64_t k = 0; k < K; ++k) {
      if (has_classes(masks)) {
        const int32_t* label = masks.as<int32_t>();
        add(
            k,
            [=](int64_t n, int64_t p) {
              return label[n * P + p] != not_judged && is_largest(in + n * K * P + p, k, K, P);
            },
            [=](int64_t n, int64_t p) { return label[n * P + p] == k; });
      } else {
        const T* t = masks.as<T>();
        const auto at = [=](int64_t n, int64_t p) { return (n * K + k) * P + p; };
        add(
            k, [=](int64_t n, int64_t p) { return in[at(n, p)] > 0; },
            [=](int64_t n, int64_t p) { return t[at(n, p)] > 0; });
      }
    }
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::add_mask_score) add_mask_score;
}  // namespace cuda

void detail::add_mask_score(const Tensor& score, const Tensor& x, const Tensor& masks) {
  check_same("add_mask_score", {&x});
  const bool are_images = x.shape().rank() == 4 && x.numel() > 0;
  const bool classes = are_images && masks.dtype() == DType::i32 &&
                       masks.shape() == Shape{x.size(0), 1, x.size(2), x.size(3)};
  const bool planes = are_images && masks.dtype() == x.dtype() && masks.shape() == x.shape();
  check((classes || planes) && masks.device() == x.device(),
        "[add_mask_score] x {} {} and masks {} {}: expected x [N, K, H, W] and masks alike, or i32 "
        "[N, 1, H, W]",
        name(x.dtype()), x.shape(), name(masks.dtype()), masks.shape());
  check(score.defined() && score.shape() == Shape{3 * x.size(1)} && score.dtype() == DType::f64 &&
            score.device() == x.device(),
        "[add_mask_score] expected score f64 [{}] on {}, where x is", 3 * x.size(1),
        name(x.device()));
  launch<cpu::add_mask_score, cuda::add_mask_score>(x.device(), score.view(), x.view(),
                                                    masks.view());
}

}  // namespace accrue
