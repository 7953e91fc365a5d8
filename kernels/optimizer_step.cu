#include "kernels/elementwise.cuh"
#include "kernels/optimizer_formulas.h"
#include "kernels/optimizer_step.h"

namespace accrue::cuda {
namespace {

// All parameters of a model in one launch. A thread has `width` consecutive parameters at a time:
// in float32 four 16-byte loads (w, m, v, gradient) and three such stores. The block's first
// thread works out what is the same for all parameters (two powers in double, slow on most
// devices) and leaves it in shared memory.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    adam_kernel(T* w, T* m, T* v, const T* gradient, int64_t n, const double* steps,
                const WindowState* state, AdamScalars scalars) {
  if (state->outcome.skipped) return;
  using Update = formula::AdamUpdate<T>;
  alignas(Update) __shared__ unsigned char of_block[sizeof(Update)];
  if (threadIdx.x == 0) new (of_block) Update(scalars, state->outcome, *steps);
  __syncthreads();
  const Update update = *reinterpret_cast<const Update*>(of_block);

  using Values = Vector<T, width>;
  const int64_t vectors = n / width;
  for (int64_t i = first_item(); i < vectors; i += item_stride()) {
    Values wi = reinterpret_cast<Values*>(w)[i], mi = reinterpret_cast<Values*>(m)[i],
           vi = reinterpret_cast<Values*>(v)[i];
    const Values gi = reinterpret_cast<const Values*>(gradient)[i];
    for (int k = 0; k < width; ++k) update(wi.values[k], mi.values[k], vi.values[k], gi.values[k]);
    reinterpret_cast<Values*>(w)[i] = wi;
    reinterpret_cast<Values*>(m)[i] = mi;
    reinterpret_cast<Values*>(v)[i] = vi;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride())
    update(w[i], m[i], v[i], gradient[i]);
}

template <int width, class T, bool has_momentum>
__global__ void __launch_bounds__(block_threads)
    sgd_kernel(T* w, T* u, const T* gradient, int64_t n, const WindowState* state,
               SgdScalars scalars) {
  if (state->outcome.skipped) return;
  const formula::SgdUpdate<T> update(scalars, state->outcome);
  using Values = Vector<T, width>;
  const int64_t vectors = n / width;
  for (int64_t i = first_item(); i < vectors; i += item_stride()) {
    Values wi = reinterpret_cast<Values*>(w)[i];
    const Values gi = reinterpret_cast<const Values*>(gradient)[i];
    if constexpr (has_momentum) {
      Values ui = reinterpret_cast<Values*>(u)[i];
      for (int k = 0; k < width; ++k) update(wi.values[k], ui.values[k], gi.values[k]);
      reinterpret_cast<Values*>(u)[i] = ui;
    } else {
      for (int k = 0; k < width; ++k) update(wi.values[k], gi.values[k]);
    }
    reinterpret_cast<Values*>(w)[i] = wi;
  }
  for (int64_t i = vectors * width + first_item(); i < n; i += item_stride()) {
    if constexpr (has_momentum) update(w[i], u[i], gradient[i]);
    else update(w[i], gradient[i]);
  }
}

}  // namespace

void adam_step(View w, View m, View v, View gradient, View steps, View state,
               const AdamScalars& scalars) {
  dispatch_floating(w.dtype, [&]<class T>() {
    constexpr int width = 16 / sizeof(T);
    const int64_t n = w.numel();
    const bool aligned = is_aligned(w.as<T>(), 16) && is_aligned(m.as<T>(), 16) &&
                         is_aligned(v.as<T>(), 16) && is_aligned(gradient.as<T>(), 16);
    enqueue(grid_over(aligned ? n / width : n), aligned ? adam_kernel<width, T> : adam_kernel<1, T>,
            w.as<T>(), m.as<T>(), v.as<T>(), gradient.as<const T>(), n, steps.as<const double>(),
            window_state(state), scalars);
  });
}

void sgd_step(View w, View u, View gradient, View state, const SgdScalars& scalars) {
  dispatch_floating(w.dtype, [&]<class T>() {
    constexpr int width = 16 / sizeof(T);
    const int64_t n = w.numel();
    const bool has_momentum = scalars.kind != Momentum::none;
    T* momentum = has_momentum ? u.as<T>() : nullptr;
    const bool aligned =
        is_aligned(w.as<T>(), 16) && is_aligned(momentum, 16) && is_aligned(gradient.as<T>(), 16);
    const auto kernel = has_momentum
                            ? (aligned ? sgd_kernel<width, T, true> : sgd_kernel<1, T, true>)
                            : (aligned ? sgd_kernel<width, T, false> : sgd_kernel<1, T, false>);
    enqueue(grid_over(aligned ? n / width : n), kernel, w.as<T>(), momentum, gradient.as<const T>(),
            n, window_state(state), scalars);
  });
}

}  // namespace accrue::cuda
