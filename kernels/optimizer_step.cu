#include "kernels/elementwise.cuh"
#include "kernels/optimizer_formulas.h"
#include "kernels/optimizer_step.h"

namespace accrue::cuda {
namespace {

// All parameters of a model in one launch. A thread has `width` consecutive parameters at a time:
// in float32 four 16-byte loads (w, m, v, gradient) and three such stores.

// The arrays of a step with a copy of the weights, or without.
struct NoCopy {};
template <int width, class Update, class... Arrays>
__device__ void step_each(int64_t n, const Update& update, NoCopy, Arrays... arrays) {
  update_each<width>(n, update, arrays...);
}
template <int width, class Update, class C, class... Arrays>
__device__ void step_each(int64_t n, const Update& update, WriteOnly<C> copy, Arrays... arrays) {
  update_each<width>(n, formula::Copied<Update>{update}, copy, arrays...);
}

template <int width, class T, class Copy>
__global__ void __launch_bounds__(block_threads)
    adam_kernel(Copy copy, T* w, T* m, T* v, const T* gradient, int64_t n, const double* progress,
                const WindowState* state, AdamScalars scalars) {
  if (state->outcome.skipped) return;
  const formula::AdamUpdate<T> update(scalars, state->outcome, progress);
  step_each<width>(n, update, copy, w, m, v, gradient);
}

__global__ void __launch_bounds__(1)
    adam_begin_kernel(double* progress, const WindowState* state, AdamScalars scalars) {
  formula::begin_adam(progress, state->outcome, scalars);
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
                            const double* progress, const WindowState* state, AdamScalars scalars) {
  if (state->outcome.skipped) return;
  const formula::AdamWeights<T> update(scalars, state->outcome, progress);
  step_each<width>(n, update, copy, w, m, v);
}

template <int width, class T, class Copy, class... Momentum>
__global__ void __launch_bounds__(block_threads)
    sgd_kernel(Copy copy, T* w, const T* gradient, int64_t n, const WindowState* state,
               SgdScalars scalars, Momentum*... u) {
  if (state->outcome.skipped) return;
  const formula::SgdUpdate<T> update(scalars, state->outcome);
  step_each<width>(n, update, copy, w, u..., gradient);
}

// Calls body(copy, width) for the weights' copy and the vectors that it and the arrays allow.
template <class T, class Body>
void with_copy_and_width(const View& copy, std::initializer_list<const void*> arrays, Body body) {
  with_width<T>(0, arrays, [&](auto width) {
    using One = std::integral_constant<int, 1>;
    const auto with = [&](auto written) {
      // The arrays' vectors are 16 bytes, the copy's 8.
      if (is_aligned(copy.data, width * sizeof(Half))) body(written, width);
      else body(written, One{});
    };
    if (!copy.data) body(NoCopy{}, width);
    else if (copy.dtype == DType::f16) with(WriteOnly<Half>{copy.as<Half>()});
    else with(WriteOnly<BFloat16>{copy.as<BFloat16>()});
  });
}

}  // namespace

void adam_step(Weights weights, View m_, View v_, View gradient_, View progress, View state,
               const AdamScalars& scalars) {
  dispatch_wide(weights.values.dtype, [&]<class T>() {
    T *w = weights.values.as<T>(), *m = m_.as<T>(), *v = v_.as<T>();
    const T* gradient = gradient_.as<const T>();
    const int64_t n = weights.values.numel();
    with_copy_and_width<T>(weights.copy, {w, m, v, gradient}, [&](auto copy, auto width) {
      enqueue(grid_over(n / width), adam_kernel<width.value, T, decltype(copy)>, copy, w, m, v,
              gradient, n, progress.as<const double>(), window_state(state), scalars);
    });
  });
}

void adam_begin(View progress, View state, const AdamScalars& scalars) {
  enqueue({dim3(1), dim3(1)}, adam_begin_kernel, progress.as<double>(), window_state(state),
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

void adam_folded_step(Weights weights, View m_, View v_, View progress, View state,
                      const AdamScalars& scalars) {
  dispatch_wide(weights.values.dtype, [&]<class T>() {
    T* w = weights.values.as<T>();
    const T *m = m_.as<const T>(), *v = v_.as<const T>();
    const int64_t n = weights.values.numel();
    with_copy_and_width<T>(weights.copy, {w, m, v}, [&](auto copy, auto width) {
      enqueue(grid_over(n / width), adam_folded_step_kernel<width.value, T, decltype(copy)>, copy,
              w, m, v, n, progress.as<const double>(), window_state(state), scalars);
    });
  });
}

void sgd_step(Weights weights, View u_, View gradient_, View state, const SgdScalars& scalars) {
  dispatch_wide(weights.values.dtype, [&]<class T>() {
    T* w = weights.values.as<T>();
    const T* gradient = gradient_.as<const T>();
    const int64_t n = weights.values.numel();
    const auto enqueue_with = [&](auto*... u) {
      with_copy_and_width<T>(weights.copy, {w, gradient, u...}, [&](auto copy, auto width) {
        enqueue(grid_over(n / width),
                sgd_kernel<width.value, T, decltype(copy), std::remove_pointer_t<decltype(u)>...>,
                copy, w, gradient, n, window_state(state), scalars, u...);
      });
    };
    if (scalars.kind == Momentum::none) enqueue_with();
    else enqueue_with(u_.as<T>());
  });
}

}  // namespace accrue::cuda
