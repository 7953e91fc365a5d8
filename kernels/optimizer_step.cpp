#include "kernels/optimizer_step.h"

#include "kernels/optimizer_formulas.h"

namespace accrue {
namespace cpu {
namespace {

// By value, so that the compiler knows that no array holds the update's numbers, and vectorises.
template <class Update, class... Ts>
void update_range(int64_t begin, int64_t end, Update update, Ts*... arrays) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) update(arrays[i]...);
}

// update(arrays[i]...) for i in [0, n).
template <class Update, class... Ts>
void update_each(int64_t n, const Update& update, Ts*... arrays) {
  parallel_for(n, sizeof...(arrays),
               [&](int64_t begin, int64_t end) { update_range(begin, end, update, arrays...); });
}

// The same with the weights' copy, where there is one.
template <class Update, class... Ts>
void step_each(const Weights& w, const Update& update, Ts*... arrays) {
  const int64_t n = w.values.numel();
  const formula::Copied<Update> copied{update};
  if (!w.copy.data) update_each(n, update, arrays...);
  else if (w.copy.dtype == DType::f16) update_each(n, copied, w.copy.as<Half>(), arrays...);
  else update_each(n, copied, w.copy.as<BFloat16>(), arrays...);
}

}  // namespace

void adam_step(Weights w, View m, View v, View gradient, View progress, View state,
               const AdamScalars& scalars) {
  const StepOutcome& step = window_state(state)->outcome;
  if (step.skipped) return;
  dispatch_wide(w.values.dtype, [&]<class T>() {
    step_each(w, formula::AdamUpdate<T>(scalars, step, progress.as<const double>()),
              w.values.as<T>(), m.as<T>(), v.as<T>(), gradient.as<const T>());
  });
}

void adam_begin(View progress, View state, const AdamScalars& scalars) {
  formula::begin_adam(progress.as<double>(), window_state(state)->outcome, scalars);
}

void adam_fold(View m, View v, View w, View gradient, const FoldScalars& fold,
               const AdamScalars& scalars) {
  dispatch_wide(w.dtype, [&]<class T>() {
    update_each(w.numel(), formula::AdamMoments<T>(scalars, fold), m.as<T>(), v.as<T>(),
                w.as<const T>(), gradient.as<const T>());
  });
}

void adam_folded_step(Weights w, View m, View v, View progress, View state,
                      const AdamScalars& scalars) {
  const StepOutcome& step = window_state(state)->outcome;
  if (step.skipped) return;
  dispatch_wide(w.values.dtype, [&]<class T>() {
    step_each(w, formula::AdamWeights<T>(scalars, step, progress.as<const double>()),
              w.values.as<T>(), m.as<const T>(), v.as<const T>());
  });
}

void sgd_step(Weights w, View u, View gradient, View state, const SgdScalars& scalars) {
  const StepOutcome& step = window_state(state)->outcome;
  if (step.skipped) return;
  dispatch_wide(w.values.dtype, [&]<class T>() {
    const formula::SgdUpdate<T> update(scalars, step);
    T* values = w.values.as<T>();
    const T* grad = gradient.as<const T>();
    if (scalars.kind == Momentum::none) step_each(w, update, values, grad);
    else step_each(w, update, values, u.as<T>(), grad);
  });
}

}  // namespace cpu

// What is updated in place is read and written; a copy is only written.
template <>
struct WorkOf<cpu::adam_step> {
  Work operator()(const Weights& w, const View& m, const View& v, const View& gradient,
                  const auto&...) const {
    return {.bytes = 2 * (bytes_of(w.values) + bytes_of(m) + bytes_of(v)) + bytes_of(w.copy) +
                     bytes_of(gradient)};
  }
};

template <>
struct WorkOf<cpu::adam_fold> {
  Work operator()(const View& m, const View& v, const View&, const View& gradient,
                  const auto&...) const {
    return {.bytes = 2 * (bytes_of(m) + bytes_of(v)) + bytes_of(gradient)};
  }
};

template <>
struct WorkOf<cpu::adam_folded_step> {
  Work operator()(const Weights& w, const View& m, const View& v, const auto&...) const {
    return {.bytes = 2 * bytes_of(w.values) + bytes_of(w.copy) + bytes_of(m) + bytes_of(v)};
  }
};

template <>
struct WorkOf<cpu::sgd_step> {
  Work operator()(const Weights& w, const View& u, const View& gradient, const View&,
                  const SgdScalars& scalars) const {
    const double momentum = scalars.kind == Momentum::none ? 0 : 2 * bytes_of(u);
    return {.bytes = 2 * bytes_of(w.values) + bytes_of(w.copy) + momentum + bytes_of(gradient)};
  }
};

// In the .cu beside this file.
namespace cuda {
decltype(cpu::adam_step) adam_step;
decltype(cpu::adam_begin) adam_begin;
decltype(cpu::adam_fold) adam_fold;
decltype(cpu::adam_folded_step) adam_folded_step;
decltype(cpu::sgd_step) sgd_step;
}  // namespace cuda

void adam_step(Weights w, View m, View v, View gradient, View progress, View state,
               const AdamScalars& scalars) {
  launch<cpu::adam_step, cuda::adam_step>(m.device, w, m, v, gradient, progress, state, scalars);
}

void adam_begin(View progress, View state, const AdamScalars& scalars) {
  launch<cpu::adam_begin, cuda::adam_begin>(state.device, progress, state, scalars);
}

void adam_fold(View m, View v, View w, View gradient, const FoldScalars& fold,
               const AdamScalars& scalars) {
  launch<cpu::adam_fold, cuda::adam_fold>(w.device, m, v, w, gradient, fold, scalars);
}

void adam_folded_step(Weights w, View m, View v, View progress, View state,
                      const AdamScalars& scalars) {
  launch<cpu::adam_folded_step, cuda::adam_folded_step>(m.device, w, m, v, progress, state,
                                                        scalars);
}

void sgd_step(Weights w, View u, View gradient, View state, const SgdScalars& scalars) {
  launch<cpu::sgd_step, cuda::sgd_step>(gradient.device, w, u, gradient, state, scalars);
}

}  // namespace accrue
