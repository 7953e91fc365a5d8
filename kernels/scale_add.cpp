#include "kernels/scale_add.h"

#include "kernels/detail/row_products.h"
#include "kernels/detail/scale.h"

namespace accrue {
namespace cpu {

void scale_add(View y, View x, View gamma, View a) {
  dispatch_floating(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T *from = x.as<T>(), *branch = a.as<T>();
    const Wide<T> factor = *gamma.as<Wide<T>>();
    parallel_each(y.numel(), 1, [&](int64_t i) { out[i] = T(from[i] + factor * branch[i]); });
  });
}

// dgamma = sum dy * a. The scratch has one element for each piece.
void scale_add_factor_backward(GradTarget dgamma, View dy, View a, View scratch) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    double* sums = scratch.as<double>();
    row_products(sums, dy.as<const T>(), a.as<const T>(), 0, RowPieces(1, dy.numel()));
    double sum = 0;
    for (int64_t p = 0; p < scratch.numel(); ++p) sum += sums[p];
    Wide<T>& out = *dgamma.grad.as<Wide<T>>();
    out = blend(static_cast<Wide<T>>(sum), dgamma.beta, out);
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::scale_add) scale_add;
decltype(cpu::scale_add_factor_backward) scale_add_factor_backward;
}  // namespace cuda

Tensor scale_add(const Tensor& x, const Tensor& gamma, const Tensor& a) {
  check_same("scale_add", {&x, &a});
  check(gamma.defined() && x.shape() == a.shape() && x.numel() > 0 && gamma.shape() == Shape{1} &&
            gamma.dtype() == wide(x.dtype()) && gamma.device() == x.device(),
        "[scale_add] x {} {}, gamma {} and a {}: expected x and a of one shape, not empty, and "
        "gamma [1] of {} on the same device",
        name(x.dtype()), x.shape(), gamma.shape(), a.shape(), name(wide(x.dtype())));
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::scale_add, cuda::scale_add>(y.device(), y.view(), x.view(), gamma.view(), a.view());

  const Edge dx_edge = x, dgamma_edge = gamma, da_edge = a;
  record("scale_add", y, {dx_edge, dgamma_edge, da_edge},
         [=, gamma = gamma.saved(), a = a.saved()](Tensor& dy) mutable {
           const Device device = dy.device();
           if (auto dgamma = claim_grad(dgamma_edge))
             launch<cpu::scale_add_factor_backward, cuda::scale_add_factor_backward>(
                 device, *dgamma, dy.view(), a.view(),
                 row_products_scratch(RowPieces(1, dy.numel()).count(), device).view());
           a.reset();
           // da goes over dy only if dx is not wanted: dx takes dy over later.
           const bool over = !dx_edge.wants_grad();
           if (auto da = over ? claim_grad_over(da_edge, dy) : claim_grad(da_edge))
             launch<cpu::scale_by, cuda::scale_by>(device, *da, dy.view(), gamma.view());
           if (auto dx = claim_grad_over(dx_edge, dy))
             launch<cpu::scale, cuda::scale>(device, *dx, dy.view(), 1.0);
         });
  return y;
}

}  // namespace accrue
