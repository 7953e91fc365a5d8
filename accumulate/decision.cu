#include "accumulate/decision_formulas.h"
#include "kernels/detail/loss_seed.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// For a sum whose last step, in double, runs in one thread. That step may take a hundred registers,
// and each thread of a block gets as many: 1024 threads would not fit on a multiprocessor.
const Grid one_block{dim3(1), block_threads};

template <class T>
__global__ void __launch_bounds__(lone_thread) seed_gradient_kernel(T* dloss, Seed<T> seed) {
  *dloss = seed.dloss();
}

template <class T>
__global__ void __launch_bounds__(lone_thread)
    add_term_kernel(WindowState* state, size_t number, const T* term, DeviceWeight weight,
                    float beta, DroppedTerms dropped) {
  formula::AddTerm{}(*state, number, double(*term), weight.value(), beta, dropped);
}

template <class T>
__global__ void __launch_bounds__(lone_thread)
    follow_loss_kernel(T* y, const WindowState* state, StepFunction f) {
  formula::FollowLoss{}(*y, *state, f);
}

__global__ void __launch_bounds__(lone_thread) plan_step_kernel(WindowState* state, StepPlan plan) {
  state->plan = plan;
}

// One block adds all partial sums in a fixed order: each thread adds every 256th, then the block
// adds by halves. Its first thread holds the result.
__device__ double sum_of(const double* partials, int64_t n) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += block_threads) sum += partials[i];
  return block_sum<block_threads>(sum);
}

__global__ void __launch_bounds__(block_threads)
    take_first_norm_kernel(WindowState* state, const double* partials, int64_t n) {
  const double sum = sum_of(partials, n);
  if (threadIdx.x != 0) return;
  state->first_squares = sum;
  state->first_weight = state->outcome.weight;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    judge_micro_batch_kernel(WindowState* state, const double* partials, int64_t n, const T* loss,
                             DeviceWeight weight, int64_t samples, float beta) {
  const double sum = sum_of(partials, n);
  if (threadIdx.x == 0) formula::Judge{}(*state, sum, double(*loss), weight.value(), samples, beta);
}

__global__ void __launch_bounds__(block_threads)
    decide_step_kernel(WindowState* state, const double* partials, int64_t n,
                       NoiseScale noise_scale) {
  const double sum = sum_of(partials, n);
  if (threadIdx.x == 0) formula::Decide{noise_scale}(*state, sum);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    settle_buffers_kernel(T* buffers, T* before, const WindowState* state, Transaction transaction,
                          int64_t n) {
  const bool skipped = formula::rolls_back(*state, transaction);
  for (int64_t i = first_item(); i < n; i += item_stride()) {
    if (skipped) buffers[i] = before[i];
    else before[i] = buffers[i];
  }
}

__global__ void __launch_bounds__(lone_thread)
    veto_step_kernel(WindowState* state, const WindowState* other) {
  formula::Veto{}(*state, *other);
}

}  // namespace

void seed_gradient(View dloss, const LossSeed& seed) {
  dispatch_wide(dloss.dtype, [&]<class T>() {
    enqueue(one_thread, seed_gradient_kernel<T>, dloss.as<T>(), Seed<T>(seed));
  });
}

void judge_micro_batch(View state, View partials, View loss, const LossWeight& weight,
                       int64_t samples, float beta) {
  dispatch_wide(loss.dtype, [&]<class T>() {
    enqueue(one_block, judge_micro_batch_kernel<T>, window_state(state),
            partials.as<const double>(), partials.numel(), loss.as<const T>(), DeviceWeight(weight),
            samples, beta);
  });
}

void add_loss(const LossSeed& seed) {
  dispatch_wide(seed.loss.dtype,
                [&]<class T>() { enqueue(one_thread, add_loss_kernel<T>, Seed<T>(seed)); });
}

void add_terms(View state, std::span<const View> terms, const LossWeight& weight, float beta,
               DroppedTerms dropped) {
  for (size_t i = 0; i < terms.size(); ++i)
    dispatch_wide(terms[i].dtype, [&]<class T>() {
      enqueue(one_thread, add_term_kernel<T>, window_state(state), i, terms[i].as<const T>(),
              DeviceWeight(weight), beta, dropped);
    });
}

void follow_loss(View y, View state, const StepFunction& f) {
  dispatch_wide(y.dtype, [&]<class T>() {
    enqueue(one_thread, follow_loss_kernel<T>, y.as<T>(), window_state(state), f);
  });
}

void plan_step(View state, const StepPlan& plan) {
  enqueue(one_thread, plan_step_kernel, window_state(state), plan);
}

void take_first_norm(View state, View partials) {
  enqueue(one_block, take_first_norm_kernel, window_state(state), partials.as<const double>(),
          partials.numel());
}

void decide_step(View state, View partials, NoiseScale noise_scale) {
  enqueue(one_block, decide_step_kernel, window_state(state), partials.as<const double>(),
          partials.numel(), noise_scale);
}

void settle_buffers(View buffers, View before, View state, Transaction transaction) {
  dispatch_wide(buffers.dtype, [&]<class T>() {
    enqueue(grid_over(buffers.numel()), settle_buffers_kernel<T>, buffers.as<T>(), before.as<T>(),
            window_state(state), transaction, buffers.numel());
  });
}

void veto_step(View state, View other) {
  enqueue(one_thread, veto_step_kernel, window_state(state), window_state(other));
}

}  // namespace accrue::cuda
