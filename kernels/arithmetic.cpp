#include "kernels/arithmetic.h"

#include "kernels/activation.h"
#include "kernels/detail/scale.h"
#include "kernels/detail/wide_runs.h"
#include "kernels/elementwise.h"

namespace accrue {
namespace cpu {

// y = a + b; y may be a.
void add(View y, View a, View b) {
  dispatch_widened(y.dtype, [&]<class W>() {
    for_each_wide_run(y.dtype, y.numel(), [&](int64_t first, int64_t n) {
      const WideInput<W> left_run(a, first, n), right_run(b, first, n);
      const WideOutput<W> to(y, 0, first, n);
      const W *const left = left_run.data(), *const right = right_run.data();
      W* const out = to.data();
      for (int64_t i = 0; i < n; ++i) out[i] = left[i] + right[i];
    });
  });
}

// y = relu(a + b); y may be a.
void add_relu(View y, View a, View b) {
  dispatch_widened(y.dtype, [&]<class W>() {
    for_each_wide_run(y.dtype, y.numel(), [&](int64_t first, int64_t n) {
      const WideInput<W> left_run(a, first, n), right_run(b, first, n);
      const WideOutput<W> to(y, 0, first, n);
      const W *const left = left_run.data(), *const right = right_run.data();
      W* const out = to.data();
      for (int64_t i = 0; i < n; ++i) out[i] = formula::Relu{}(left[i] + right[i]);
    });
  });
}

namespace {

// target = dz + beta * target, dz = dy where y > 0, else 0; target may be dy.
void relu_gradient(GradTarget target, View dy, View y) {
  dispatch_widened(dy.dtype, [&]<class W>() {
    with_beta(target.beta, [&](auto accumulate) {
      for_each_wide_run(dy.dtype, dy.numel(), [&](int64_t first, int64_t n) {
        const WideInput<W> from(dy, first, n), by(y, first, n);
        const WideOutput<W> to(target.grad, target.beta, first, n);
        const W *const in = from.data(), *const at = by.data();
        W* const out = to.data();
        constexpr formula::Backward<formula::Relu> through{};
        for (int64_t i = 0; i < n; ++i) store(out[i], through(in[i], at[i]), accumulate);
      });
    });
  });
}

}  // namespace

// target = dz + beta * target, dz = dy where y > 0, else 0, for one target or for two that are
// apart. The first may be dy.
void add_relu_backward(std::optional<GradTarget> da, std::optional<GradTarget> db, View dy,
                       View y) {
  // The second first: the first may be written over the dy that it needs.
  if (db) relu_gradient(*db, dy, y);
  if (da) relu_gradient(*da, dy, y);
}

// y = a * b + beta * y; y may be a.
void multiply(GradTarget y, View a, View b) {
  dispatch_widened(a.dtype, [&]<class W>() {
    with_beta(y.beta, [&](auto accumulate) {
      for_each_wide_run(a.dtype, a.numel(), [&](int64_t first, int64_t n) {
        const WideInput<W> left_run(a, first, n), right_run(b, first, n);
        const WideOutput<W> to(y.grad, y.beta, first, n);
        const W *const left = left_run.data(), *const right = right_run.data();
        W* const out = to.data();
        for (int64_t i = 0; i < n; ++i) store(out[i], left[i] * right[i], accumulate);
      });
    });
  });
}

namespace {

void scale_each(GradTarget y, View x, double by) {
  dispatch_widened(x.dtype, [&]<class W>() {
    const W factor = static_cast<W>(by);
    with_beta(y.beta, [&](auto accumulate) {
      for_each_wide_run(x.dtype, x.numel(), [&](int64_t first, int64_t n) {
        const WideInput<W> from(x, first, n);
        const WideOutput<W> to(y.grad, y.beta, first, n);
        const W* const in = from.data();
        W* const out = to.data();
        for (int64_t i = 0; i < n; ++i) store(out[i], factor * in[i], accumulate);
      });
    });
  });
}

}  // namespace

void scale(GradTarget y, View x, double factor) {
  const bool unchanged = y.grad.data == x.data && y.beta == 0 && factor == 1;
  if (unchanged) return;
  scale_each(y, x, factor);
}

void scale_by(GradTarget y, View x, View factor) {
  scale_each(y, x, factor.dtype == DType::f64 ? *factor.as<double>() : *factor.as<float>());
}

}  // namespace cpu

namespace cuda {
decltype(cpu::add) add;
decltype(cpu::add_relu) add_relu;
decltype(cpu::add_relu_backward) add_relu_backward;
decltype(cpu::multiply) multiply;
}  // namespace cuda

namespace {

// The kernels here are for operands of one shape and dtype, elementwise ones for all others.
bool are_alike(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape() == b.shape() && a.dtype() == b.dtype();
}

// The target of the second operand's gradient. It may be dy itself only if the first operand wants
// no gradient.
std::optional<GradTarget> claim_second(const Edge& first, const Edge& second, Tensor& dy) {
  return first.wants_grad() ? claim_grad(second) : claim_grad_over(second, dy);
}

}  // namespace

Tensor add(Tensor a, const Tensor& b) {
  if (!are_alike(a, b)) return apply(Formula::add, {std::move(a), b});
  check_same("add", {&a, &b});
  const Edge da_edge = a, db_edge = b;
  Tensor y = a.sole_owner() ? a.detach() : empty_result(a.shape(), a.dtype(), a.device());
  if (!result_is_unread()) launch<cpu::add, cuda::add>(y.device(), y.view(), a.view(), b.view());
  record("add", y, {da_edge, db_edge}, [=](Tensor& dy) {
    if (auto da = claim_grad_over(da_edge, dy))
      launch<cpu::scale, cuda::scale>(dy.device(), *da, dy.view(), 1.0);
    // In x + x both targets are the same buffer: adding dy with beta 1 doubles it.
    if (auto db = claim_second(da_edge, db_edge, dy))
      launch<cpu::scale, cuda::scale>(dy.device(), *db, dy.view(), 1.0);
  });
  return y;
}

Tensor detail::add_relu(Tensor a, const Tensor& b) {
  check_same("add_relu", {&a, &b});
  check(a.shape() == b.shape(), "[add_relu] a {} and b {}: expected one shape", a.shape(),
        b.shape());
  const Edge da_edge = a, db_edge = b;
  Tensor y = a.sole_owner() ? a.detach() : Tensor::empty(a.shape(), a.dtype(), a.device());
  launch<cpu::add_relu, cuda::add_relu>(y.device(), y.view(), a.view(), b.view());
  record("add_relu", y, {da_edge, db_edge}, [=, y = y.saved()](Tensor& dy) {
    const auto write = [&](std::optional<GradTarget> da, std::optional<GradTarget> db) {
      if (da || db)
        launch<cpu::add_relu_backward, cuda::add_relu_backward>(dy.device(), da, db, dy.view(),
                                                                y.view());
    };
    if (da_edge.wants_grad() && db_edge.wants_grad() && da_edge.variable() != db_edge.variable()) {
      offer_buffer(da_edge, dy);
      const auto [da, db] = claim_grads(da_edge, db_edge);
      write(da, db);
    } else {
      // In x + x both targets are the same buffer. dy may have been written over: what is 0 there
      // stays so.
      write(claim_grad_over(da_edge, dy), std::nullopt);
      write(claim_second(da_edge, db_edge, dy), std::nullopt);
    }
  });
  return y;
}

Tensor mul(Tensor a, const Tensor& b) {
  if (!are_alike(a, b)) return apply(Formula::mul, {std::move(a), b});
  check_same("mul", {&a, &b});
  const Edge da_edge = a, db_edge = b;
  Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  launch<cpu::multiply, cuda::multiply>(y.device(), GradTarget{y.view(), 0}, a.view(), b.view());
  record("mul", y, {da_edge, db_edge},
         [=, a = db_edge.wants_grad() ? a.saved() : Tensor(),
          b = da_edge.wants_grad() ? b.saved() : Tensor()](Tensor& dy) mutable {
           // db first: da may be written over the dy that db needs.
           if (auto db = claim_second(da_edge, db_edge, dy))
             launch<cpu::multiply, cuda::multiply>(dy.device(), *db, dy.view(), a.view());
           a.reset();
           if (auto da = claim_grad_over(da_edge, dy))
             launch<cpu::multiply, cuda::multiply>(dy.device(), *da, dy.view(), b.view());
         });
  return y;
}

Tensor scale(Tensor x, double factor) {
  check_same("scale", {&x});
  const Edge edge = x;
  Tensor y = x.sole_owner() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::scale, cuda::scale>(y.device(), GradTarget{y.view(), 0}, x.view(), factor);
  record("scale", y, {edge}, [=](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy))
      launch<cpu::scale, cuda::scale>(dy.device(), *dx, dy.view(), factor);
  });
  return y;
}

Tensor detail::scale_by(Tensor x, const Tensor& factor) {
  check_same("scale_by", {&x});
  check_same("scale_by", {&factor});
  const bool is_wide = wide(factor.dtype()) == factor.dtype();
  check(factor.numel() == 1 && is_wide && factor.device() == x.device(),
        "[scale_by] factor {} {} on {}: expected one element, f32 or f64, on {}, where x is",
        name(factor.dtype()), factor.shape(), name(factor.device()), name(x.device()));
  check(!Edge(factor).wants_grad(),
        "[scale_by] the factor wants a gradient, but is a constant here; pass factor.detach()");
  const Edge edge = x;
  Tensor y = x.sole_owner() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::scale_by, cuda::scale_by>(y.device(), GradTarget{y.view(), 0}, x.view(),
                                        factor.view());
  record("scale_by", y, {edge}, [=, factor = factor.saved()](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy))
      launch<cpu::scale_by, cuda::scale_by>(dy.device(), *dx, dy.view(), factor.view());
  });
  return y;
}

}  // namespace accrue
