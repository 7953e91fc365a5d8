#include "kernels/detail/elementwise.cuh"
#include "kernels/step/optimizer_formulas.h"
#include "kernels/step/optimizer_step.h"

namespace accrue::cuda {
namespace {

// One launch updates all parameters of a model. A thread takes `width` consecutive parameters at a
// time. In float32 with two moments these are four 16-byte loads (w, m, v, gradient) and three
// 16-byte stores; a gradient in bfloat16 takes an 8-byte load.

// Updates the arrays of a step, with a copy of the weights or without.
struct NoCopy {};
template <int width, class Update, class... Arrays>
__device__ void step_each(int64_t n, const Update& update, NoCopy, Arrays... arrays) {
  update_each<width>(n, update, arrays...);
}
template <int width, class Update, class C, class... Arrays>
__device__ void step_each(int64_t n, const Update& update, WriteOnly<C> copy, Arrays... arrays) {
  update_each<width>(n, formula::Copied<Update>{update}, copy, arrays...);
}

template <int width, class T, class G, class Copy, class Scalars, class... Moments>
__global__ void __launch_bounds__(block_threads)
    step_kernel(Copy copy, T* w, const G* gradient, int64_t n, const double* progress,
                const StepOutcome* outcome, Scalars scalars, Moments*... moments) {
  if (outcome->skipped != Skipped::no) return;
  const auto update = formula::update_of<T>(scalars, *outcome, progress);
  step_each<width>(n, update, copy, w, moments..., gradient);
}

__global__ void __launch_bounds__(1) count_step_kernel(double* steps, const StepOutcome* outcome) {
  if (outcome->skipped == Skipped::no) *steps += 1;
}

__global__ void __launch_bounds__(1)
    adam_begin_kernel(double* progress, const StepOutcome* outcome, AdamScalars scalars) {
  formula::begin_adam(progress, *outcome, scalars);
}

template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    adam_fold_kernel(T* m, T* v, const T* w, const T* gradient, int64_t n, FoldScalars fold,
                     AdamScalars scalars) {
  update_each<width>(n, formula::AdamMoments<T>(scalars, fold), m, v, w, gradient);
}

template <int width, class T, class Copy>
__global__ void __launch_bounds__(block_threads)
    adam_folded_step_kernel(Copy copy, T* w, const T* m, const T* v, int64_t n,
                            const double* progress, const StepOutcome* outcome,
                            AdamScalars scalars) {
  if (outcome->skipped != Skipped::no) return;
  const formula::AdamWeights<T> update(scalars, *outcome, progress);
  step_each<width>(n, update, copy, w, m, v);
}

// Calls body(copy, width) with the weights' copy and the vector width that it and the arrays allow.
template <class T, class Body>
void with_copy_and_width(const View& copy, std::initializer_list<const void*> arrays, Body body) {
  with_width<T>(0, arrays, [&](auto width) {
    using One = std::integral_constant<int, 1>;
    const auto with = [&](auto written) {
      // The arrays' vectors have 16 bytes, the copy's 8. Models have copies of float32 weights
      // only, so doubles need not be fast.
      if constexpr (std::is_same_v<T, float>)
        if (is_aligned(copy.data, width * sizeof(Half))) return body(written, width);
      body(written, One{});
    };
    if (!copy.data) body(NoCopy{}, width);
    else if (copy.dtype == DType::f16) with(WriteOnly<Half>{copy.as<Half>()});
    else with(WriteOnly<BFloat16>{copy.as<BFloat16>()});
  });
}

}  // namespace

void optimizer_step(Weights weights, const Moments& moments, View gradient_, View progress_,
                    View outcome, const StepRule& rule) {
  const double* const progress = progress_.data ? progress_.as<const double>() : nullptr;
  const auto step = [&]<class T, class G, class Scalars>(const Scalars& scalars, auto*... m) {
    T* w = weights.values.as<T>();
    const G* gradient = gradient_.as<const G>();
    const int64_t n = weights.values.numel();
    with_copy_and_width<T>(weights.copy, {w, gradient, m...}, [&](auto copy, auto width) {
      enqueue(grid_over(n / width),
              step_kernel<width.value, T, G, decltype(copy), Scalars,
                          std::remove_pointer_t<decltype(m)>...>,
              copy, w, gradient, n, progress, step_outcome(outcome), scalars, m...);
    });
  };
  std::visit(
      [&]<class Scalars>(const Scalars& scalars) {
        dispatch_wide(weights.values.dtype, [&]<class T>() {
          using Update = decltype(formula::update_of<T>(scalars, StepOutcome{}, progress));
          formula::with_moments<T, Update>(moments, [&](auto*... m) {
            formula::with_gradient<T>(gradient_, [&]<class G>() {
              step.template operator()<T, G, Scalars>(scalars, m...);
            });
          });
        });
      },
      rule);
}

void count_step(View steps, View outcome) {
  enqueue({dim3(1), dim3(1)}, count_step_kernel, steps.as<double>(), step_outcome(outcome));
}

void adam_begin(View progress, View outcome, const AdamScalars& scalars) {
  enqueue({dim3(1), dim3(1)}, adam_begin_kernel, progress.as<double>(), step_outcome(outcome),
          scalars);
}

void adam_fold(View m_, View v_, View w_, View gradient_, const FoldScalars& fold,
               const AdamScalars& scalars) {
  dispatch_wide(w_.dtype, [&]<class T>() {
    T *m = m_.as<T>(), *v = v_.as<T>();
    const T *w = w_.as<const T>(), *gradient = gradient_.as<const T>();
    const int64_t n = w_.numel();
    with_width<T>(0, {m, v, w, gradient}, [&](auto width) {
      enqueue(grid_over(n / width), adam_fold_kernel<width.value, T>, m, v, w, gradient, n, fold,
              scalars);
    });
  });
}

void adam_folded_step(Weights weights, View m_, View v_, View progress, View outcome,
                      const AdamScalars& scalars) {
  dispatch_wide(weights.values.dtype, [&]<class T>() {
    T* w = weights.values.as<T>();
    const T *m = m_.as<const T>(), *v = v_.as<const T>();
    const int64_t n = weights.values.numel();
    with_copy_and_width<T>(weights.copy, {w, m, v}, [&](auto copy, auto width) {
      enqueue(grid_over(n / width), adam_folded_step_kernel<width.value, T, decltype(copy)>, copy,
              w, m, v, n, progress.as<const double>(), step_outcome(outcome), scalars);
    });
  });
}

}  // namespace accrue::cuda
