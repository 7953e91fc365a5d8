#include "kernels/optimizer_step.h"

#include "kernels/optimizer_formulas.h"

namespace accrue {
namespace cpu {

void adam_step(View w_, View m_, View v_, View gradient, View steps, View state,
               const AdamScalars& scalars) {
  const StepOutcome& step = window_state(state)->outcome;
  if (step.skipped) return;
  dispatch_floating(w_.dtype, [&]<class T>() {
    T *w = w_.as<T>(), *m = m_.as<T>(), *v = v_.as<T>();
    const T* grad = gradient.as<const T>();
    const formula::AdamUpdate<T> update(scalars, step, *steps.as<double>());
    parallel_for(w_.numel(), 4, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) update(w[i], m[i], v[i], grad[i]);
    });
  });
}

void sgd_step(View w_, View u_, View gradient, View state, const SgdScalars& scalars) {
  const StepOutcome& step = window_state(state)->outcome;
  if (step.skipped) return;
  dispatch_floating(w_.dtype, [&]<class T>() {
    T* w = w_.as<T>();
    T* u = scalars.kind == Momentum::none ? nullptr : u_.as<T>();
    const T* grad = gradient.as<const T>();
    const formula::SgdUpdate<T> update(scalars, step);
    parallel_for(w_.numel(), 3, [&](int64_t begin, int64_t end) {
      if (!u) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) update(w[i], grad[i]);
      } else {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) update(w[i], u[i], grad[i]);
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

void adam_step(View w, View m, View v, View gradient, View steps, View state,
               const AdamScalars& scalars) {
  launch<cpu::adam_step, cuda::adam_step>(w.device, w, m, v, gradient, steps, state, scalars);
}

void sgd_step(View w, View u, View gradient, View state, const SgdScalars& scalars) {
  launch<cpu::sgd_step, cuda::sgd_step>(w.device, w, u, gradient, state, scalars);
}

}  // namespace accrue
