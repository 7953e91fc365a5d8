#include "kernels/linear.h"

#include "kernels/formulas.h"
#include "kernels/gemm.h"

namespace accrue {
namespace cpu {

// c = op(a) op(b) + beta * c for two-dimensional views.
void matmul(View c, View a, View b, Transpose a_op, Transpose b_op, float beta) {
  dispatch_floating(c.dtype, [&]<class T>() {
    gemm(c.as<T>(), a.as<T>(), b.as<T>(), c.shape[0], c.shape[1],
         a_op == Transpose::yes ? a.shape[0] : a.shape[1], a_op, b_op, beta);
  });
}

// y = act(y + b), one pass while y is still in cache.
void add_bias(View y, View b, Activation activation) {
  dispatch_floating(y.dtype, [&]<class T>() {
    const int64_t N = y.shape[0], O = y.shape[1];
    const T* bias = b.data ? b.as<T>() : nullptr;
    parallel_for(N, O, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T* row = y.as<T>() + n * O;
        if (bias)
          for (int64_t o = 0; o < O; ++o) row[o] += bias[o];
        if (activation == Activation::relu)
          for (int64_t o = 0; o < O; ++o) row[o] = formula::Relu{}(row[o]);
      }
    });
  });
}

// db[o] = sum_n dz[n, o] + beta * db[o], in a fixed order.
void bias_backward(GradTarget db, View dz) {
  dispatch_floating(dz.dtype, [&]<class T>() {
    const int64_t N = dz.shape[0], O = dz.shape[1];
    T* out = db.grad.as<T>();
    const T* in = dz.as<T>();
    if (db.beta == 0) std::fill_n(out, O, T(0));
    for (int64_t n = 0; n < N; ++n)
      for (int64_t o = 0; o < O; ++o) out[o] += in[n * O + o];
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::matmul) matmul;
decltype(cpu::add_bias) add_bias;
decltype(cpu::bias_backward) bias_backward;
}  // namespace cuda

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation) {
  check_same("linear", {&x, &w, b.defined() ? &b : &w});
  check(x.shape().rank() == 2 && w.shape().rank() == 2 && x.size(1) == w.size(1),
        "[linear] x {} and w {}: expected x [N, I] and w [O, I]", x.shape(), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "[linear] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), w.size(0));
  Tensor y = Tensor::empty({x.size(0), w.size(0)}, x.dtype(), x.device());
  launch<cpu::matmul, cuda::matmul>(y.device(), y.view(), x.view(), w.view(), Transpose::no,
                                    Transpose::yes, 0);
  if (b.defined() || activation != Activation::none)
    launch<cpu::add_bias, cuda::add_bias>(y.device(), y.view(), b.defined() ? b.view() : View{},
                                          activation);

  const Edge dx_edge = x, dw_edge = w, db_edge = b;
  record("linear", y, {dx_edge, dw_edge, db_edge},
         [=, x = x.detach(), w = w.detach(),
          y = activation == Activation::relu ? y.detach() : Tensor()](Tensor& dy) mutable {
           const Device device = dy.device();
           if (y.defined())
             launch<cpu::relu_backward_over, cuda::relu_backward_over>(device, dy.view(), y.view());
           y.reset();
           if (auto dw = claim_grad(dw_edge))
             launch<cpu::matmul, cuda::matmul>(device, dw->grad, dy.view(), x.view(),
                                               Transpose::yes, Transpose::no, dw->beta);
           x.reset();
           if (auto db = claim_grad(db_edge))
             launch<cpu::bias_backward, cuda::bias_backward>(device, *db, dy.view());
           if (auto dx = claim_grad(dx_edge))
             launch<cpu::matmul, cuda::matmul>(device, dx->grad, dy.view(), w.view(), Transpose::no,
                                               Transpose::no, dx->beta);
         });
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_same("matmul", {&a, &b});
  check(a.shape().rank() == 2 && b.shape().rank() == 2 && a.size(1) == b.size(0),
        "[matmul] a {} and b {}: expected a [M, K] and b [K, N]", a.shape(), b.shape());
  Tensor c = Tensor::empty({a.size(0), b.size(1)}, a.dtype(), a.device());
  launch<cpu::matmul, cuda::matmul>(c.device(), c.view(), a.view(), b.view(), Transpose::no,
                                    Transpose::no, 0);
  const Edge da_edge = a, db_edge = b;
  record("matmul", c, {da_edge, db_edge}, [=, a = a.detach(), b = b.detach()](Tensor& dc) mutable {
    if (auto da = claim_grad(da_edge))
      launch<cpu::matmul, cuda::matmul>(dc.device(), da->grad, dc.view(), b.view(), Transpose::no,
                                        Transpose::yes, da->beta);
    b.reset();
    if (auto db = claim_grad(db_edge))
      launch<cpu::matmul, cuda::matmul>(dc.device(), db->grad, a.view(), dc.view(), Transpose::yes,
                                        Transpose::no, db->beta);
  });
  return c;
}

}  // namespace accrue
