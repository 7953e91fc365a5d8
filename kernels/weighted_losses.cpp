#include "kernels/weighted_losses.h"

#include <algorithm>
#include <numeric>

#include "core/ceil_div.h"
#include "kernels/detail/constants.h"
#include "kernels/detail/elements_per_block.h"
#include "kernels/detail/sample_losses.h"
#include "kernels/detail/wide_runs.h"
#include "kernels/mask_score.h"

namespace accrue {
namespace cpu {

void sum_sample_weights(View sum, View sample_weights) {
  check_each_sample_weight("sample_weights", sample_weights);
  const SampleWeights s(sample_weights);
  double total = 0;
  for (int64_t n = 0; n < sample_weights.numel(); ++n) total += s[n];
  *sum.as<double>() = total;
}

// Without weights of samples there is no sum of them.
inline double weight_of(const View& weight, int64_t samples) {
  return weight.data ? *weight.as<const double>() : double(samples);
}

template <class F>
void sample_loss(View loss, View block_sums, View x, View target, View sample_weights, View weight,
                 F f) {
  const SampleShape shape(x.shape);
  const SampleWeights s(sample_weights);
  dispatch_widened(x.dtype, [&]<class W>() {
    const int64_t size = x.numel();
    double* sums = block_sums.as<double>();
    parallel_each(block_sums.numel(), elements_per_block, [&](int64_t b) {
      sums[b] = 0;
      const int64_t end = std::min(size, (b + 1) * elements_per_block);
      for (int64_t first = b * elements_per_block; first < end; first += wide_run) {
        const int64_t n = std::min(wide_run, end - first);
        const WideInput<W> in(x, first, n), t(target, first, n);
        for (int64_t i = 0; i < n; ++i) {
          const double own = s[shape.sample(first + i)];
          if (own > 0)
            sums[b] += own * double(f.value(in.data()[i], t.data()[i], shape.class_of(first + i)));
        }
      }
    });
    const double sum = std::accumulate(sums, sums + block_sums.numel(), 0.0);
    *loss.as<W>() =
        static_cast<W>(mean_over(sum / double(shape.of_sample), weight_of(weight, x.shape[0])));
  });
}

// dx may be x.
template <class F>
void sample_loss_backward(GradTarget dx, View dloss, View x, View target, View sample_weights,
                          View weight, F f) {
  const SampleShape shape(x.shape);
  const SampleWeights s(sample_weights);
  dispatch_widened(x.dtype, [&]<class W>() {
    const double factor = mean_over(double(*dloss.as<const W>()) / double(shape.of_sample),
                                    weight_of(weight, x.shape[0]));
    with_beta(dx.beta, [&](auto accumulate) {
      for_each_wide_run(x.dtype, x.numel(), [&](int64_t first, int64_t n) {
        const WideOutput<W> to(dx.grad, dx.beta, first, n);
        const WideInput<W> in(x, first, n), t(target, first, n);
        for (int64_t i = 0; i < n; ++i) {
          const double own = s[shape.sample(first + i)];
          const W slope =
              own > 0 ? f.slope(in.data()[i], t.data()[i], shape.class_of(first + i)) : W(0);
          store(to.data()[i], W(factor * own) * slope, accumulate);
        }
      });
    });
  });
}

void check_each_probability(View target) {
  dispatch_floating(target.dtype, [&]<class T>() {
    const T* t = target.as<const T>();
    for (int64_t i = 0; i < target.numel(); ++i)
      check(t[i] >= 0 && t[i] <= 1, "[bce_with_logits] target {} is {}, expected it in [0, 1]", i,
            widen(t[i]));
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::sum_sample_weights) sum_sample_weights;
template <class F>
void sample_loss(View loss, View block_sums, View x, View target, View sample_weights, View weight,
                 F f);
template <class F>
void sample_loss_backward(GradTarget dx, View dloss, View x, View target, View sample_weights,
                          View weight, F f);
}  // namespace cuda

namespace {

Tensor sum_of_weights(const Tensor& s) {
  if (!s.defined()) return {};
  Tensor sum = Tensor::empty({}, DType::f64, s.device());
  launch<cpu::sum_sample_weights, cuda::sum_sample_weights>(s.device(), sum.view(), s.view());
  return sum;
}

// f refers to the elements of `held` on the device.
template <class F>
Tensor mean_loss(std::string_view op, const Tensor& x, const Tensor& target, const Tensor& s, F f,
                 const Tensor& held = {}) {
  const Tensor weight = sum_of_weights(s);
  Tensor loss = Tensor::empty({}, wide(x.dtype()), x.device());
  {
    const Tensor block_sums = Tensor::empty({ceil_div(x.numel(), elements_per_block)}, DType::f64,
                                            x.device(), Category::workspace);
    launch<cpu::sample_loss<F>, cuda::sample_loss<F>>(x.device(), loss.view(), block_sums.view(),
                                                      x.view(), target.view(), view_of(s),
                                                      view_of(weight), f);
  }
  const Edge edge = x;
  const Tensor kept_s = s.defined() ? s.saved() : s;
  record(op, loss, {edge},
         [=, x = x.saved(), target = target.saved(), held = held,
          weight = weight](Tensor& dloss) mutable {
           Tensor over = std::move(x);
           if (auto dx = claim_grad_over_value(edge, over))
             launch<cpu::sample_loss_backward<F>, cuda::sample_loss_backward<F>>(
                 dloss.device(), *dx, dloss.view(), over.view(), target.view(), view_of(kept_s),
                 view_of(weight), f);
         });
  return loss;
}

void check_operands(std::string_view op, const Tensor& x, const Tensor& target, const Tensor& s) {
  check_same(op, {&x, &target});
  check(x.shape() == target.shape() && x.shape().rank() > 0 && x.numel() > 0,
        "[{}] x {} and target {}: expected one shape [N, ...] of at least one element", op,
        x.shape(), target.shape());
  check(!Edge(target).wants_grad(),
        "[{}] the target wants a gradient, but is a constant here; pass target.detach()", op);
  check_sample_weights(op, s, x.size(0), x.device());
}

}  // namespace

Tensor sample_weight_sum(const Tensor& sample_weights) {
  check(sample_weights.defined() && sample_weights.shape().rank() == 1 &&
            sample_weights.numel() > 0 && sample_weights.dtype() == DType::f32,
        "[sample_weight_sum] sample weights {}: expected f32 [N] of one sample or more",
        sample_weights.defined()
            ? fmt::format("{} {}", name(sample_weights.dtype()), sample_weights.shape())
            : "that are undefined");
  return sum_of_weights(sample_weights);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const Tensor& sample_weights) {
  check_operands("mse_loss", x, target, sample_weights);
  return mean_loss("mse_loss", x, target, sample_weights, ElementLoss<formula::SquaredError>{});
}
Tensor l1_loss(const Tensor& x, const Tensor& target, const Tensor& sample_weights) {
  check_operands("l1_loss", x, target, sample_weights);
  return mean_loss("l1_loss", x, target, sample_weights, ElementLoss<formula::AbsoluteError>{});
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta,
                      const Tensor& sample_weights) {
  check_operands("smooth_l1_loss", x, target, sample_weights);
  check(beta >= 0 && std::isfinite(beta),
        "[smooth_l1_loss] beta is {}: expected a finite number of at least 0", beta);
  return mean_loss("smooth_l1_loss", x, target, sample_weights,
                   ElementLoss<formula::SmoothError>{{beta}});
}
Tensor bce_with_logits(const Tensor& x, const Tensor& target,
                       std::span<const double> positive_weights, const Tensor& sample_weights) {
  check_operands("bce_with_logits", x, target, sample_weights);
  const int64_t C = SampleShape(x.shape()).classes;
  check(positive_weights.empty() || std::ssize(positive_weights) == C,
        "[bce_with_logits] {} positive weights for x {}: expected none, or {}",
        positive_weights.size(), x.shape(), C);
  for (const double p : positive_weights)
    check(p >= 0 && p <= 1e6, "[bce_with_logits] a positive weight is {}: expected it in [0, 1e6]",
          p);
  if (target.device() == Device::cpu) cpu::check_each_probability(target.view());
  const Tensor p = positive_weights.empty() ? Tensor() : constants_on(x.device(), positive_weights);
  return mean_loss("bce_with_logits", x, target, sample_weights, PositiveLogistic(view_of(p)), p);
}

void detail::add_label_score(const Tensor& score, const Tensor& x, const Tensor& target) {
  check(x.shape().rank() == 2 && target.shape() == x.shape(),
        "[add_label_score] x {} and target {}: expected one shape [N, K]", x.shape(),
        target.shape());
  const Shape pixels{x.size(0), x.size(1), 1, 1};
  add_mask_score(score, x.reshape(pixels), target.reshape(pixels));
}

}  // namespace accrue
