#include "kernels/pointwise.h"

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

// y = f(x); y may be x.
void map(View y, View x, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_floating(x.dtype, [&]<class T>() {
          T* out = y.as<T>();
          const T* in = x.as<T>();
          parallel_each(x.numel(), 1, [&](int64_t i) { out[i] = T(f(widen(in[i]))); });
        });
      },
      formula);
}

// dx = dy * f'(kept) + beta * dx; dx may be dy.
void map_backward(GradTarget dx, View dy, View kept, const formula::AnyPointwise& formula) {
  std::visit(
      [&](auto f) {
        dispatch_floating(dy.dtype, [&]<class T>() {
          T* out = dx.grad.as<T>();
          const T *in = dy.as<T>(), *at = kept.as<T>();
          with_beta(dx.beta, [&](auto accumulate) {
            parallel_each(dy.numel(), 1, [&](int64_t i) {
              store(out[i], in[i] * f.slope_at(widen(at[i])), accumulate);
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

Tensor pointwise(Tensor x, const formula::AnyPointwise& f) {
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
