#include "kernels/pointwise.h"

#include <algorithm>

#include "kernels/cpu/erfc.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {
namespace {

// y[i] = f(x[i]); y may be x.
template <class T, class F>
void map_run(T* y, const T* x, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

// target[i] = dy[i] * f'(kept[i]), stored; target may be dy.
template <class T, class F, class Accumulate>
void map_backward_run(T* target, const T* dy, const T* kept, int64_t n, const F& f,
                      Accumulate accumulate) {
  for (int64_t i = 0; i < n; ++i) store(target[i], dy[i] * f.slope_at(kept[i]), accumulate);
}

// Gelu's for floats, a piece at a time, because the compiler makes no vectors of std::erfc and
// std::exp. The formulas are formula::Gelu's.
constexpr int64_t gelu_piece = 256;

void map_run(float* y, const float* x, int64_t n, const formula::Gelu&) {
  float erfc[gelu_piece];
  for (int64_t begin = 0; begin < n; begin += gelu_piece) {
    const int64_t size = std::min(gelu_piece, n - begin);
    for (int64_t i = 0; i < size; ++i) erfc[i] = -x[begin + i] * 0.7071067811865476f;
    erfc_over(erfc, size);
    for (int64_t i = 0; i < size; ++i) y[begin + i] = x[begin + i] * (erfc[i] / 2);
  }
}

template <class Accumulate>
void map_backward_run(float* target, const float* dy, const float* kept, int64_t n,
                      const formula::Gelu&, Accumulate accumulate) {
  float erfc[gelu_piece], exp[gelu_piece];
  for (int64_t begin = 0; begin < n; begin += gelu_piece) {
    const int64_t size = std::min(gelu_piece, n - begin);
    const float* const x = kept + begin;
    for (int64_t i = 0; i < size; ++i) {
      erfc[i] = -x[i] * 0.7071067811865476f;
      exp[i] = -x[i] * x[i] / 2;
    }
    erfc_over(erfc, size);
    exp_over(exp, size);
    for (int64_t i = 0; i < size; ++i)
      store(target[begin + i], dy[begin + i] * (erfc[i] / 2 + x[i] * 0.3989422804014327f * exp[i]),
            accumulate);
  }
}

}  // namespace

// y = f(x); y may be x.
void map(View y, View x, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_widened(x.dtype, [&]<class W>() {
          for_each_wide_run(x.dtype, x.numel(), [&](int64_t first, int64_t n) {
            const WideInput<W> from(x, first, n);
            const WideOutput<W> to(y, 0, first, n);
            map_run(to.data(), from.data(), n, f);
          });
        });
      },
      formula);
}

// dx = dy * f'(kept) + beta * dx; dx may be dy.
void map_backward(GradTarget dx, View dy, View kept, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_widened(dy.dtype, [&]<class W>() {
          with_beta(dx.beta, [&](auto accumulate) {
            for_each_wide_run(dy.dtype, dy.numel(), [&](int64_t first, int64_t n) {
              const WideInput<W> from(dy, first, n), by(kept, first, n);
              const WideOutput<W> to(dx.grad, dx.beta, first, n);
              map_backward_run(to.data(), from.data(), by.data(), n, f, accumulate);
            });
          });
        });
      },
      formula);
}

}  // namespace cpu

namespace cuda {
decltype(cpu::map) map;
decltype(cpu::map_backward) map_backward;
}  // namespace cuda

Tensor detail::pointwise(Tensor x, const formula::AnyPointwise& f) {
  const auto [op, keeps] = std::visit([](auto f) { return std::pair{f.name, f.keeps}; }, f);
  const bool keeps_y = keeps == formula::Keeps::y;
  check_same(op, {&x});
  const Edge input = x;
  Tensor y =
      keeps_y && x.sole_owner() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::map, cuda::map>(y.device(), y.view(), x.view(), f);
  record(op, y, {input}, [input, f, kept = keeps_y ? y.saved() : x.saved()](Tensor& dy) mutable {
    if (auto dx = claim_grad_over(input, dy))
      launch<cpu::map_backward, cuda::map_backward>(dy.device(), *dx, dy.view(), kept.view(), f);
  });
  return y;
}

}  // namespace accrue
