#include "kernels/pointwise.h"

#include "kernels/formulas.h"

namespace accrue {
namespace cpu {

// y = f(x); y may be x.
template <class F>
void map(View y, View x, F f) {
  dispatch_floating(x.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T* in = x.as<T>();
    parallel_for(x.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = T(f(widen(in[i])));
    });
  });
}

// dx = dy * f'(kept) + beta * dx; dx may be dy.
template <class F>
void map_backward(GradTarget dx, View dy, View kept, F f) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    T* out = dx.grad.as<T>();
    const T *in = dy.as<T>(), *at = kept.as<T>();
    with_beta(dx.beta, [&](auto accumulate) {
      parallel_for(dy.numel(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          store(out[i], in[i] * f.slope_at(widen(at[i])), accumulate);
      });
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
template <class F>
void map(View y, View x, F f);
template <class F>
void map_backward(GradTarget dx, View dy, View kept, F f);
}  // namespace cuda

namespace {

enum class Keeps { x, y };

// y = f(x). `x` is written over if this is its last reference and only y is kept.
template <class F>
Tensor pointwise(std::string_view op, Tensor x, F f, Keeps keeps) {
  check_same(op, {&x});
  const Edge input = x;
  const bool over = keeps == Keeps::y && x.sole_owner();
  Tensor y = over ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::map<F>, cuda::map<F>>(y.device(), y.view(), x.view(), f);
  record(op, y, {input},
         [input, f, kept = keeps == Keeps::y ? y.detach() : x.detach()](Tensor& dy) mutable {
           if (auto dx = claim_grad_over(input, dy))
             launch<cpu::map_backward<F>, cuda::map_backward<F>>(dy.device(), *dx, dy.view(),
                                                                 kept.view(), f);
         });
  return y;
}

}  // namespace

Tensor relu(Tensor x) { return pointwise("relu", std::move(x), formula::Relu{}, Keeps::y); }
Tensor leaky_relu(Tensor x, double slope) {
  check(slope > 0, "[leaky_relu] slope is {}, expected more than 0", slope);
  return pointwise("leaky_relu", std::move(x), formula::LeakyRelu{slope}, Keeps::y);
}
Tensor gelu(const Tensor& x) { return pointwise("gelu", x, formula::Gelu{}, Keeps::x); }
Tensor sigmoid(Tensor x) {
  return pointwise("sigmoid", std::move(x), formula::Sigmoid{}, Keeps::y);
}
Tensor tanh(Tensor x) { return pointwise("tanh", std::move(x), formula::Tanh{}, Keeps::y); }
Tensor silu(const Tensor& x) { return pointwise("silu", x, formula::Silu{}, Keeps::x); }

}  // namespace accrue
