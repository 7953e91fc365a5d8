#include "kernels/arithmetic.h"

#include "kernels/backend.h"
#include "kernels/detail/scale.h"

namespace accrue {
namespace cpu {

// y = a + b; y may be a.
void add(View y, View a, View b) {
  dispatch_floating(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T *left = a.as<T>(), *right = b.as<T>();
    parallel_each(y.numel(), 1, [&](int64_t i) { out[i] = T(left[i] + right[i]); });
  });
}

// y = a * b + beta * y; y may be a.
void multiply(GradTarget y, View a, View b) {
  dispatch_floating(a.dtype, [&]<class T>() {
    T* out = y.grad.as<T>();
    const T *left = a.as<T>(), *right = b.as<T>();
    with_beta(y.beta, [&](auto accumulate) {
      parallel_each(a.numel(), 1,
                    [&](int64_t i) { store(out[i], left[i] * right[i], accumulate); });
    });
  });
}

template <class T>
void scale_each(GradTarget y, View x, Wide<T> factor) {
  T* out = y.grad.as<T>();
  const T* in = x.as<T>();
  with_beta(y.beta, [&](auto accumulate) {
    parallel_each(x.numel(), 1, [&](int64_t i) { store(out[i], factor * in[i], accumulate); });
  });
}

void scale(GradTarget y, View x, double factor) {
  const bool unchanged = y.grad.data == x.data && y.beta == 0 && factor == 1;
  if (unchanged) return;
  dispatch_floating(x.dtype, [&]<class T>() { scale_each<T>(y, x, static_cast<Wide<T>>(factor)); });
}

void scale_by(GradTarget y, View x, View factor) {
  const double f = factor.dtype == DType::f64 ? *factor.as<double>() : *factor.as<float>();
  dispatch_floating(x.dtype, [&]<class T>() { scale_each<T>(y, x, static_cast<Wide<T>>(f)); });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::add) add;
decltype(cpu::multiply) multiply;
}  // namespace cuda

namespace {

void check_same_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  check_same(op, {&a, &b});
  check(a.shape() == b.shape(), "[{}] a {} and b {}: expected one shape", op, a.shape(), b.shape());
}

// The target of a second operand. It may be dy itself only if the first operand is not to get it.
std::optional<GradTarget> claim_second(const Edge& first, const Edge& second, Tensor& dy) {
  return first.wants_grad() ? claim_grad(second) : claim_grad_over(second, dy);
}

}  // namespace

Tensor add(Tensor a, const Tensor& b) {
  check_same_shape("add", a, b);
  const Edge da_edge = a, db_edge = b;
  Tensor y = a.sole_owner() ? a.detach() : empty_result(a.shape(), a.dtype(), a.device());
  if (!result_is_unread()) launch<cpu::add, cuda::add>(y.device(), y.view(), a.view(), b.view());
  record("add", y, {da_edge, db_edge}, [=](Tensor& dy) {
    if (auto da = claim_grad_over(da_edge, dy))
      launch<cpu::scale, cuda::scale>(dy.device(), *da, dy.view(), 1.0);
    // In x + x this is the same buffer again, and beta 1 doubles it.
    if (auto db = claim_second(da_edge, db_edge, dy))
      launch<cpu::scale, cuda::scale>(dy.device(), *db, dy.view(), 1.0);
  });
  return y;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  check_same_shape("mul", a, b);
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

Tensor scale_by(Tensor x, const Tensor& factor) {
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
