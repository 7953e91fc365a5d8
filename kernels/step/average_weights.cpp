#include "kernels/step/average_weights.h"

#include "kernels/step/average_formulas.h"

namespace accrue {
namespace cpu {

void average_weights(View average_, View w_, View outcome, double decay) {
  const StepOutcome& step = *step_outcome(outcome);
  if (step.skipped != Skipped::no) return;
  dispatch_wide(w_.dtype, [&]<class T>() {
    T* average = average_.as<T>();
    const T* w = w_.as<const T>();
    const formula::AverageUpdate<T> update(step, decay);
    parallel_for(w_.numel(), 2, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) update(average[i], w[i]);
    });
  });
}

void exchange(View a, View b) {
  dispatch_wide(a.dtype,
                [&]<class T>() { std::swap_ranges(a.as<T>(), a.as<T>() + a.numel(), b.as<T>()); });
}

}  // namespace cpu

template <>
struct detail::WorkOf<cpu::average_weights> {
  Work operator()(const View& average, const View& w, const View&, double) const {
    return {.bytes = 2 * bytes_of(average) + bytes_of(w)};
  }
};

namespace cuda {
decltype(cpu::average_weights) average_weights;
decltype(cpu::exchange) exchange;
}  // namespace cuda

void average_weights(View average, View w, View outcome, double decay) {
  launch<cpu::average_weights, cuda::average_weights>(w.device, average, w, outcome, decay);
}

void exchange(View a, View b) { launch<cpu::exchange, cuda::exchange>(a.device, a, b); }

}  // namespace accrue
