#include "kernels/linear.h"

#include "kernels/formulas.h"

namespace accrue {
namespace cpu {

// c = op(a) op(b) + beta * c for two-dimensional views.
void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View /*workspace*/) {
  dispatch_floating(c.grad.dtype, [&]<class T>() {
    gemm(c.grad.as<T>(), a.as<T>(), b.as<T>(), c.grad.shape[0], c.grad.shape[1],
         a_op == Transpose::yes ? a.shape[0] : a.shape[1], a_op, b_op, c.beta);
  });
}

// y = act(y + b); b may be empty.
void add_bias(View y, View b, Activation activation) {
  if (!b.data && activation == Activation::none) return;
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

// y = act(x w^T + b), the bias in a pass of its own while y is still in cache; b may be empty.
void linear_forward(View y, View x, View w, View b, Activation activation, View workspace) {
  matmul({y, 0}, x, w, Transpose::no, Transpose::yes, workspace);
  add_bias(y, b, activation);
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
decltype(cpu::linear_forward) linear_forward;
decltype(cpu::bias_backward) bias_backward;
}  // namespace cuda

namespace {

// What one product on cuda may use. The same for all, so that no shape needs to be known; the CPU's
// products need none.
Tensor matmul_workspace(Device device) {
  const int64_t bytes = plans_for_cuda(device) ? 4 << 20 : 0;
  return Tensor::empty({bytes}, DType::u8, device, Category::workspace);
}

}  // namespace

void multiply(GradTarget c, View a, View b, Transpose a_op, Transpose b_op) {
  const Device device = c.grad.device;
  launch<cpu::matmul, cuda::matmul>(device, c, a, b, a_op, b_op, matmul_workspace(device).view());
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation) {
  check_same("linear", {&x, &w, b.defined() ? &b : &w});
  check(x.shape().rank() == 2 && w.shape().rank() == 2 && x.size(1) == w.size(1),
        "[linear] x {} and w {}: expected x [N, I] and w [O, I]", x.shape(), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "[linear] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), w.size(0));
  Tensor y = Tensor::empty({x.size(0), w.size(0)}, x.dtype(), x.device());
  launch<cpu::linear_forward, cuda::linear_forward>(y.device(), y.view(), x.view(), w.view(),
                                                    b.defined() ? b.view() : View{}, activation,
                                                    matmul_workspace(y.device()).view());

  const Edge dx_edge = x, dw_edge = w, db_edge = b;
  record("linear", y, {dx_edge, dw_edge, db_edge},
         [=, x = x.detach(), w = w.detach(),
          y = activation == Activation::relu ? y.detach() : Tensor()](Tensor& dy) mutable {
           const Device device = dy.device();
           if (y.defined())
             launch<cpu::relu_backward_over, cuda::relu_backward_over>(device, dy.view(), y.view());
           y.reset();
           if (auto dw = claim_grad(dw_edge))
             multiply(*dw, dy.view(), x.view(), Transpose::yes, Transpose::no);
           x.reset();
           if (auto db = claim_grad(db_edge))
             launch<cpu::bias_backward, cuda::bias_backward>(device, *db, dy.view());
           if (auto dx = claim_grad(dx_edge))
             multiply(*dx, dy.view(), w.view(), Transpose::no, Transpose::no);
         });
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_same("matmul", {&a, &b});
  check(a.shape().rank() == 2 && b.shape().rank() == 2 && a.size(1) == b.size(0),
        "[matmul] a {} and b {}: expected a [M, K] and b [K, N]", a.shape(), b.shape());
  Tensor c = Tensor::empty({a.size(0), b.size(1)}, a.dtype(), a.device());
  multiply({c.view(), 0}, a.view(), b.view(), Transpose::no, Transpose::no);
  const Edge da_edge = a, db_edge = b;
  record("matmul", c, {da_edge, db_edge}, [=, a = a.detach(), b = b.detach()](Tensor& dc) mutable {
    if (auto da = claim_grad(da_edge))
      multiply(*da, dc.view(), b.view(), Transpose::no, Transpose::yes);
    b.reset();
    if (auto db = claim_grad(db_edge))
      multiply(*db, a.view(), dc.view(), Transpose::yes, Transpose::no);
  });
  return c;
}

}  // namespace accrue
