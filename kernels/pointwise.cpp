#include "kernels/pointwise.h"

#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {

// y = f(x); y may be x.
void map(View y, View x, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_widened(x.dtype, [&]<class W>() {
          for_each_wide_run(x.dtype, x.numel(), [&](int64_t first, int64_t n) {
            const WideInput<W> from(x, first, n);
            const WideOutput<W> to(y, 0, first, n);
            const W* const in = from.data();
            W* const out = to.data();
            for (int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
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
              const W *const in = from.data(), *const at = by.data();
              W* const out = to.data();
              for (int64_t i = 0; i < n; ++i) store(out[i], in[i] * f.slope_at(at[i]), accumulate);
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
