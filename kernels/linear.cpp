#include "kernels/linear.h"

#include "kernels/formulas.h"
#include "kernels/gemm_16bit.h"

namespace accrue {
namespace cpu {
namespace {

float* scratch_of(View workspace) { return reinterpret_cast<float*>(workspace.as<uint8_t>()); }

}  // namespace

// c = op(a) op(b) + beta * c for two-dimensional views.
void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace) {
  const int64_t M = c.grad.shape[0], N = c.grad.shape[1];
  const int64_t K = a_op == Transpose::yes ? a.shape[0] : a.shape[1];
  dispatch_floating(a.dtype, [&]<class T>() {
    if constexpr (is_16_bit<T>) {
      const Product16<T> product{M, N, K, a_op, b_op, c.beta};
      const auto multiply = [&]<class C>(C* out) {
        gemm_16bit(out, a.as<const T>(), b.as<const T>(), product, scratch_of(workspace));
      };
      if (c.grad.dtype == a.dtype) multiply(c.grad.as<T>());
      else multiply(c.grad.as<float>());
    } else {
      gemm(c.grad.as<T>(), a.as<T>(), b.as<T>(), M, N, K, a_op, b_op, c.beta);
    }
  });
}

// y = act(y + b); b may be empty.
template <class T>
void add_bias(View y, View b, Activation activation) {
  if (!b.data && activation == Activation::none) return;
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
}

// y = act(x w^T + b); b may be empty. Wide results get the bias in a pass of its own, while they
// are still in cache; 16-bit ones before they are rounded.
void linear_forward(View y, View x, View w, View b, Activation activation, View workspace) {
  dispatch_floating(x.dtype, [&]<class T>() {
    if constexpr (is_16_bit<T>) {
      const Product16<T> product{x.shape[0],
                                 w.shape[0],
                                 x.shape[1],
                                 Transpose::no,
                                 Transpose::yes,
                                 0,
                                 b.data ? b.as<const T>() : nullptr,
                                 activation};
      gemm_16bit(y.as<T>(), x.as<const T>(), w.as<const T>(), product, scratch_of(workspace));
    } else {
      matmul({y, 0}, x, w, Transpose::no, Transpose::yes, workspace);
      add_bias<T>(y, b, activation);
    }
  });
}

// db[o] = sum_n dz[n, o] + beta * db[o], in a fixed order.
void bias_backward(GradTarget db, View dz) {
  dispatch_floating(
      dz.dtype, [&]<class T, class W = Wide<T>>() {
        const int64_t N = dz.shape[0], O = dz.shape[1];
        W* out = db.grad.as<W>();
        const T* in = dz.as<T>();
        if (db.beta == 0) std::fill_n(out, O, W(0));
        for (int64_t n = 0; n < N; ++n)
          for (int64_t o = 0; o < O; ++o) out[o] += in[n * O + o];
      });
}

// dz = dy * act'(y) over dy, if there is a y; then dw and db, where wanted.
void linear_backward(std::optional<GradTarget> dw, std::optional<GradTarget> db, View dy, View y,
                     View x, View workspace) {
  if (y.data) relu_backward_over(dy, y);
  if (dw) matmul(*dw, dy, x, Transpose::yes, Transpose::no, workspace);
  if (db) bias_backward(*db, dy);
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::matmul) matmul;
decltype(cpu::linear_forward) linear_forward;
decltype(cpu::linear_backward) linear_backward;
}  // namespace cuda

namespace {

// What one product may use: on cuda the same for all, so that no shape needs to be known; on the
// cpu 16-bit operands need room to be widened.
Tensor matmul_workspace(DType dtype, Device device) {
  const int64_t tiles = is_16_bit_dtype(dtype) ? 4 * cpu::gemm_16bit_scratch() : 0;
  const int64_t bytes = plans_for_cuda(device) ? 4 << 20 : tiles;
  return Tensor::empty({bytes}, DType::u8, device, Category::workspace);
}

}  // namespace

void multiply(GradTarget c, View a, View b, Transpose a_op, Transpose b_op) {
  const Device device = c.grad.device;
  launch<cpu::matmul, cuda::matmul>(device, c, a, b, a_op, b_op,
                                    matmul_workspace(a.dtype, device).view());
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const Tensor w = operand(weight, x.dtype()), b = operand(bias, x.dtype());
  check_same("linear", {&x, &w, b.defined() ? &b : &w});
  check(x.shape().rank() == 2 && w.shape().rank() == 2 && x.size(1) == w.size(1),
        "[linear] x {} and w {}: expected x [N, I] and w [O, I]", x.shape(), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "[linear] b {} with w {}: expected b [{}]",
        b.shape(), w.shape(), w.size(0));
  Tensor y = Tensor::empty({x.size(0), w.size(0)}, x.dtype(), x.device());
  launch<cpu::linear_forward, cuda::linear_forward>(y.device(), y.view(), x.view(), w.view(),
                                                    b.defined() ? b.view() : View{}, activation,
                                                    matmul_workspace(x.dtype(), y.device()).view());

  const Edge dx_edge = x, dw_edge = weight, db_edge = bias;
  record("linear", y, {dx_edge, dw_edge, db_edge},
         [=, x = x.detach(),
          y = activation == Activation::relu ? y.detach() : Tensor()](Tensor& dy) mutable {
           const Device device = dy.device();
           {
             const auto [dw, db] = claim_grads(dw_edge, db_edge);
             launch<cpu::linear_backward, cuda::linear_backward>(
                 device, dw, db, dy.view(), y.defined() ? y.view() : View{}, x.view(),
                 matmul_workspace(dy.dtype(), device).view());
           }
           x.reset();
           y.reset();
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
