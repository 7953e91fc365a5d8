#include "kernels/step/optimizer_step.h"

#include "kernels/detail/wide_runs.h"
#include "kernels/step/optimizer_formulas.h"

namespace accrue {
namespace cpu {
namespace {

// `update` is passed by value, so that the compiler knows that no store to an array changes it, and
// vectorises.
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

// Does the same, and rounds the new weights, the first of the arrays, to their copy if there is
// one.
template <class Update, class T, class... Ts>
void step_each(const Weights& w, const Update& update, T* weights, Ts*... arrays) {
  const int64_t n = w.values.numel();
  if (!w.copy.data) return update_each(n, update, weights, arrays...);
  if constexpr (!std::is_same_v<T, float>)
    fail("a copy in {} of weights in {}: expected f32", name(w.copy.dtype), name(w.values.dtype));
  else
    parallel_for(n, sizeof...(arrays) + 2, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += wide_run) {
        const int64_t last = std::min(end, first + wide_run);
        update_range(first, last, update, weights, arrays...);
        round_run(w.copy, first, weights + first, last - first);
      }
    });
}

}  // namespace

void optimizer_step(Weights w, const Moments& moments, View gradient, View progress, View outcome,
                    const StepRule& rule) {
  const StepOutcome& step = *step_outcome(outcome);
  if (step.skipped != Skipped::no) return;
  const double* const begun = progress.data ? progress.as<const double>() : nullptr;
  std::visit(
      [&](const auto& scalars) {
        dispatch_wide(w.values.dtype, [&]<class T>() {
          const auto update = formula::update_of<T>(scalars, step, begun);
          formula::with_moments<T, decltype(update)>(moments, [&](auto*... m) {
            formula::with_gradient<T>(gradient, [&]<class G>() {
              step_each(w, update, w.values.as<T>(), m..., gradient.as<const G>());
            });
          });
        });
      },
      rule);
}

void count_step(View steps, View outcome) {
  if (step_outcome(outcome)->skipped == Skipped::no) *steps.as<double>() += 1;
}

void adam_begin(View progress, View outcome, const AdamScalars& scalars) {
  formula::begin_adam(progress.as<double>(), *step_outcome(outcome), scalars);
}

void adam_fold(View m, View v, View w, View gradient, const FoldScalars& fold,
               const AdamScalars& scalars) {
  dispatch_wide(w.dtype, [&]<class T>() {
    update_each(w.numel(), formula::AdamMoments<T>(scalars, fold), m.as<T>(), v.as<T>(),
                w.as<const T>(), gradient.as<const T>());
  });
}

void adam_folded_step(Weights w, View m, View v, View progress, View outcome,
                      const AdamScalars& scalars) {
  const StepOutcome& step = *step_outcome(outcome);
  if (step.skipped != Skipped::no) return;
  dispatch_wide(w.values.dtype, [&]<class T>() {
    step_each(w, formula::AdamWeights<T>(scalars, step, progress.as<const double>()),
              w.values.as<T>(), m.as<const T>(), v.as<const T>());
  });
}

}  // namespace cpu

// Tensors updated in place are read and written; a copy is only written.
template <>
struct detail::WorkOf<cpu::optimizer_step> {
  Work operator()(const Weights& w, const Moments& moments, const View& gradient,
                  const auto&...) const {
    return {.bytes = 2 * (bytes_of(w.values) + bytes_of(moments[0]) + bytes_of(moments[1])) +
                     bytes_of(w.copy) + bytes_of(gradient)};
  }
};

template <>
struct detail::WorkOf<cpu::adam_fold> {
  Work operator()(const View& m, const View& v, const View&, const View& gradient,
                  const auto&...) const {
    return {.bytes = 2 * (bytes_of(m) + bytes_of(v)) + bytes_of(gradient)};
  }
};

template <>
struct detail::WorkOf<cpu::adam_folded_step> {
  Work operator()(const Weights& w, const View& m, const View& v, const auto&...) const {
    return {.bytes = 2 * bytes_of(w.values) + bytes_of(w.copy) + bytes_of(m) + bytes_of(v)};
  }
};

namespace cuda {
decltype(cpu::optimizer_step) optimizer_step;
decltype(cpu::count_step) count_step;
decltype(cpu::adam_begin) adam_begin;
decltype(cpu::adam_fold) adam_fold;
decltype(cpu::adam_folded_step) adam_folded_step;
}  // namespace cuda

void detail::optimizer_step(Weights w, const Moments& moments, View gradient, View progress,
                            View outcome, const StepRule& rule) {
  launch<cpu::optimizer_step, cuda::optimizer_step>(gradient.device, w, moments, gradient, progress,
                                                    outcome, rule);
}

void detail::count_step(View steps, View outcome) {
  launch<cpu::count_step, cuda::count_step>(outcome.device, steps, outcome);
}

void detail::adam_begin(View progress, View outcome, const AdamScalars& scalars) {
  launch<cpu::adam_begin, cuda::adam_begin>(outcome.device, progress, outcome, scalars);
}

void detail::adam_fold(View m, View v, View w, View gradient, const FoldScalars& fold,
                       const AdamScalars& scalars) {
  launch<cpu::adam_fold, cuda::adam_fold>(w.device, m, v, w, gradient, fold, scalars);
}

void detail::adam_folded_step(Weights w, View m, View v, View progress, View outcome,
                              const AdamScalars& scalars) {
  launch<cpu::adam_folded_step, cuda::adam_folded_step>(m.device, w, m, v, progress, outcome,
                                                        scalars);
}

}  // namespace accrue
