#include "kernels/reduce.cuh"
#include "kernels/window_formulas.h"

namespace accrue::cuda {
namespace {

// One thread: what these kernels cost is their launch.
const Grid one_thread{dim3(1), dim3(1)};

constexpr int decide_threads = 1024;

template <class T>
__global__ void add_loss_kernel(WindowState* state, const T* loss, double samples, float beta) {
  state->loss_sum = blend(double(*loss) * samples, beta, state->loss_sum);
}

__global__ void plan_step_kernel(WindowState* state, StepPlan plan) { state->plan = plan; }

// One block adds all partial sums, each thread every 1024th, then by halves: a fixed order.
__global__ void decide_step_kernel(WindowState* state, const double* partials, int64_t n) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += decide_threads) sum += partials[i];
  sum = block_sum<decide_threads>(sum);
  if (threadIdx.x == 0) formula::Decide{}(*state, sum);
}

template <class T>
__global__ void settle_buffers_kernel(T* buffers, T* before, const WindowState* state, int64_t n) {
  const bool skipped = state->outcome.skipped != 0;
  for (int64_t i = first_item(); i < n; i += item_stride()) {
    if (skipped) buffers[i] = before[i];
    else before[i] = buffers[i];
  }
}

__global__ void count_step_kernel(double* steps, const WindowState* state) {
  if (state->outcome.skipped == 0) *steps += 1;
}

}  // namespace

void add_loss(View state, View loss, int64_t samples, float beta) {
  dispatch_floating(loss.dtype, [&]<class T>() {
    enqueue(one_thread, add_loss_kernel<T>, window_state(state), loss.as<const T>(),
            double(samples), beta);
  });
}

void plan_step(View state, const StepPlan& plan) {
  enqueue(one_thread, plan_step_kernel, window_state(state), plan);
}

void decide_step(View state, View partials) {
  enqueue({dim3(1), dim3(decide_threads)}, decide_step_kernel, window_state(state),
          partials.as<const double>(), partials.numel());
}

void settle_buffers(View buffers, View before, View state) {
  dispatch_floating(buffers.dtype, [&]<class T>() {
    enqueue(grid_over(buffers.numel()), settle_buffers_kernel<T>, buffers.as<T>(), before.as<T>(),
            window_state(state), buffers.numel());
  });
}

void count_step(View steps, View state) {
  enqueue(one_thread, count_step_kernel, steps.as<double>(), window_state(state));
}

}  // namespace accrue::cuda
