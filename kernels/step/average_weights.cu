#include "kernels/detail/elementwise.cuh"
#include "kernels/step/average_formulas.h"
#include "kernels/step/average_weights.h"

namespace accrue::cuda {
namespace {

// One launch updates all parameters of a model, 16 bytes of each array at a time.

template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    average_weights_kernel(T* average, const T* w, int64_t n, const StepOutcome* outcome,
                           double decay) {
  if (outcome->skipped != Skipped::no) return;
  update_each<width>(n, formula::AverageUpdate<T>(*outcome, decay), average, w);
}

template <int width, class T>
__global__ void __launch_bounds__(block_threads) exchange_kernel(T* a, T* b, int64_t n) {
  update_each<width>(n, formula::Exchange{}, a, b);
}

}  // namespace

void average_weights(View average_, View w_, View outcome, double decay) {
  dispatch_wide(w_.dtype, [&]<class T>() {
    T* average = average_.as<T>();
    const T* w = w_.as<const T>();
    const int64_t n = w_.numel();
    with_width<T>(0, {average, w}, [&](auto width) {
      enqueue(grid_over(n / width), average_weights_kernel<width.value, T>, average, w, n,
              step_outcome(outcome), decay);
    });
  });
}

void exchange(View a_, View b_) {
  dispatch_wide(a_.dtype, [&]<class T>() {
    T *a = a_.as<T>(), *b = b_.as<T>();
    const int64_t n = a_.numel();
    with_width<T>(0, {a, b}, [&](auto width) {
      enqueue(grid_over(n / width), exchange_kernel<width.value, T>, a, b, n);
    });
  });
}

}  // namespace accrue::cuda
