#include "kernels/optimizer_step.h"

#include <cmath>
#include <limits>

#include "kernels/backend.h"

namespace accrue {
namespace cpu {

// Zero for a denormal number.
template <class T>
T flush(T value) {
  return std::abs(value) < std::numeric_limits<T>::min() ? T(0) : value;
}

void adam_step(View w_, View gradient, View m_, View v_, const AdamScalars& s) {
  dispatch_floating(w_.dtype, [&]<class T>() {
    T *w = w_.as<T>(), *m = m_.as<T>(), *v = v_.as<T>();
    const T* grad = gradient.as<T>();
    const double correction1 = 1 - std::pow(s.beta1, double(s.step));
    const double correction2 = 1 - std::pow(s.beta2, double(s.step));
    const T beta1 = T(s.beta1), beta2 = T(s.beta2), eps = T(s.eps), scale = T(s.grad_scale);
    const T rest1 = T(1 - s.beta1), rest2 = T(1 - s.beta2);
    const T step_size = T(s.lr / correction1), inverse_root = T(1 / std::sqrt(correction2));
    const T l2 = T(s.decay == WeightDecay::l2 ? s.weight_decay : 0);
    const T keep = T(s.decay == WeightDecay::decoupled ? 1 - s.lr * s.weight_decay : 1);
    parallel_for(w_.numel(), 4, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const T g = scale * grad[i] + l2 * w[i];
        const T mi = m[i] = flush(beta1 * m[i] + rest1 * g);
        const T vi = v[i] = flush(beta2 * v[i] + rest2 * g * g);
        w[i] = keep * w[i] - step_size * mi / (std::sqrt(vi) * inverse_root + eps);
      }
    });
  });
}

void sgd_step(View w_, View gradient, View u_, const SgdScalars& s) {
  dispatch_floating(w_.dtype, [&]<class T>() {
    T* w = w_.as<T>();
    T* u = s.kind == Momentum::none ? nullptr : u_.as<T>();
    const T* grad = gradient.as<T>();
    const T lr = T(s.lr), momentum = T(s.momentum), decay = T(s.weight_decay);
    const T scale = T(s.grad_scale);
    parallel_for(w_.numel(), 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T g = scale * grad[i] + decay * w[i];
        if (u) {
          u[i] = momentum * u[i] + g;
          g = s.kind == Momentum::nesterov ? g + momentum * u[i] : u[i];
        }
        w[i] -= lr * g;
      }
    });
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::adam_step) adam_step;
decltype(cpu::sgd_step) sgd_step;
}  // namespace cuda

void adam_step(View w, View gradient, View m, View v, const AdamScalars& scalars) {
  launch<cpu::adam_step, cuda::adam_step>(w.device, w, gradient, m, v, scalars);
}

void sgd_step(View w, View gradient, View u, const SgdScalars& scalars) {
  launch<cpu::sgd_step, cuda::sgd_step>(w.device, w, gradient, u, scalars);
}

}  // namespace accrue
