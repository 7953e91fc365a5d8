#include "kernels/losses.h"

#include "core/ceil_div.h"
#include "kernels/arithmetic.h"
#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/formulas.h"
#include "kernels/detail/reduce.h"
#include "kernels/detail/scale.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {

// Targets is a View, or empty if f knows its target.
template <class F, class... Targets>
void loss(View loss, View block_sums, View x, F f, Targets... target) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t n = x.numel(), blocks = block_sums.numel();
    double* sums = block_sums.as<double>();
    parallel_each(blocks, elements_per_block, [&](int64_t b) {
      const int64_t begin = b * elements_per_block, size = std::min(elements_per_block, n - begin);
      const auto sum = [=](const T* in, const auto*... t) {
        return sum_of<Wide<T>>(size, [=](int64_t i) { return f(widen(in[i]), widen(t[i])...); });
      };
      sums[b] = sum(x.as<T>() + begin, target.template as<T>() + begin...);
    });
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b) sum += sums[b];
    *loss.as<Wide<T>>() = static_cast<Wide<T>>(sum / static_cast<double>(n));
  });
}

// dx may be x.
template <class F, class... Targets>
void loss_backward(GradTarget dx, View dloss, View x, F f, Targets... target) {
  dispatch_widened(x.dtype, [&]<class W>() {
    const W factor = *dloss.as<W>() / static_cast<W>(x.numel());
    with_beta(dx.beta, [&](auto accumulate) {
      const auto write = [=](int64_t n, W* out, const W* in, const auto*... t) {
        for (int64_t i = 0; i < n; ++i)
          store(out[i], factor * f.slope_at(in[i], t[i]...), accumulate);
      };
      for_each_wide_run(x.dtype, x.numel(), [&](int64_t first, int64_t n) {
        const WideOutput<W> to(dx.grad, dx.beta, first, n);
        write(n, to.data(), WideInput<W>(x, first, n).data(),
              WideInput<W>(target, first, n).data()...);
      });
    });
  });
}

void check_probabilities(View target) {
  dispatch_floating(target.dtype, [&]<class T>() {
    const T* t = target.as<T>();
    for (int64_t i = 0; i < target.numel(); ++i)
      check(t[i] >= 0 && t[i] <= 1, "[bce_with_logits] target {} is {}, expected it in [0, 1]", i,
            widen(t[i]));
  });
}

}  // namespace cpu

namespace cuda {
template <class F, class... Targets>
void loss(View loss, View block_sums, View x, F f, Targets... target);
template <class F, class... Targets>
void loss_backward(GradTarget dx, View dloss, View x, F f, Targets... target);
}  // namespace cuda

namespace {

// The kernels get a View of each target.
template <class>
using TargetView = View;

template <class F, class... Targets>
Tensor mean_loss(std::string_view op, const Tensor& x, F f, const Targets&... target) {
  check(x.numel() > 0, "[{}] x {}: expected at least one element", op, x.shape());
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const Tensor block_sums = Tensor::empty({ceil_div(x.numel(), elements_per_block)}, DType::f64,
                                            x.device(), Category::workspace);
    launch<cpu::loss<F, TargetView<Targets>...>, cuda::loss<F, TargetView<Targets>...>>(
        x.device(), loss.view(), block_sums.view(), x.view(), f, target.view()...);
  }
  const Edge edge = x;
  record(op, loss, {edge},
         [edge, f, x = x.saved(), ... target = target.saved()](Tensor& dloss) mutable {
           Tensor over = std::move(x);
           if (auto dx = claim_grad_over_value(edge, over))
             launch<cpu::loss_backward<F, TargetView<Targets>...>,
                    cuda::loss_backward<F, TargetView<Targets>...>>(
                 dloss.device(), *dx, dloss.view(), over.view(), f, target.view()...);
         });
  return loss;
}

template <class F>
Tensor loss_against(std::string_view op, const Tensor& x, const Tensor& target, F f) {
  check_same(op, {&x, &target});
  check(x.shape() == target.shape() && x.numel() > 0,
        "[{}] x {} and target {}: expected one shape of at least one element", op, x.shape(),
        target.shape());
  check(!Edge(target).wants_grad(),
        "[{}] the target wants a gradient, but is a constant here; pass target.detach()", op);
  return mean_loss(op, x, f, target);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target) {
  return loss_against("mse_loss", x, target, formula::SquaredError{});
}
Tensor l1_loss(const Tensor& x, const Tensor& target) {
  return loss_against("l1_loss", x, target, formula::AbsoluteError{});
}
Tensor bce_with_logits(const Tensor& x, const Tensor& target) {
  check_same("bce_with_logits", {&target});
  if (target.device() == Device::cpu) cpu::check_probabilities(target.view());
  return loss_against("bce_with_logits", x, target, formula::LogisticLoss{});
}
Tensor bce_with_logits(const Tensor& x, double target) {
  check_same("bce_with_logits", {&x});
  check(target >= 0 && target <= 1, "[bce_with_logits] the target is {}, expected it in [0, 1]",
        target);
  return mean_loss("bce_with_logits", x, formula::ConstantLogisticLoss{target});
}

Tensor detail::given_loss(const Tensor& x, const Tensor& loss, const Tensor& dx, double times) {
  check_same("given_loss", {&x, &dx});
  check(x.shape() == dx.shape() && loss.defined() && loss.shape() == Shape{} &&
            loss.dtype() == wide(x.dtype()) && loss.device() == x.device(),
        "[given_loss] x {} {} and its gradient {}: expected one shape, and a loss that is a scalar "
        "{} beside them",
        name(x.dtype()), x.shape(), dx.shape(), name(wide(x.dtype())));
  Tensor y = Tensor::empty({}, loss.dtype(), loss.device());
  launch<cpu::scale, cuda::scale>(y.device(), GradTarget{y.view(), 0}, loss.view(), 1.0);
  const Edge edge = x;
  record("given_loss", y, {edge}, [edge, times, dx = dx.saved()](Tensor& dy) {
    if (const auto target = claim_grad(edge))
      launch<cpu::scale_by, cuda::scale_by>(dy.device(), *target, dx.view(),
                                            scale(dy, times).view());
  });
  return y;
}

}  // namespace accrue
