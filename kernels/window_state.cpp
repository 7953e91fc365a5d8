#include "kernels/window_state.h"

#include "kernels/window_formulas.h"

namespace accrue {
namespace cpu {

void add_loss(View state, View loss, int64_t samples, float beta) {
  double& sum = window_state(state)->loss_sum;
  dispatch_floating(loss.dtype, [&]<class T>() {
    sum = blend(double(*loss.as<T>()) * double(samples), beta, sum);
  });
}

void plan_step(View state, const StepPlan& plan) { window_state(state)->plan = plan; }

void decide_step(View state, View partials) {
  double sum = 0;
  for (int64_t i = 0; i < partials.numel(); ++i) sum += partials.as<double>()[i];
  formula::Decide{}(*window_state(state), sum);
}

void settle_buffers(View buffers, View before, View state) {
  const bool skipped = window_state(state)->outcome.skipped != 0;
  dispatch_floating(buffers.dtype, [&]<class T>() {
    T *now = buffers.as<T>(), *then = before.as<T>();
    if (skipped) std::copy_n(then, buffers.numel(), now);
    else std::copy_n(now, buffers.numel(), then);
  });
}

void count_step(View steps, View state) {
  if (window_state(state)->outcome.skipped == 0) *steps.as<double>() += 1;
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::add_loss) add_loss;
decltype(cpu::plan_step) plan_step;
decltype(cpu::decide_step) decide_step;
decltype(cpu::settle_buffers) settle_buffers;
decltype(cpu::count_step) count_step;
}  // namespace cuda

Tensor make_window_state(Device device) {
  Tensor state = Tensor::empty({sizeof(WindowState)}, DType::u8, device, Category::workspace);
  const std::vector<uint8_t> zeros(sizeof(WindowState));
  state.copy_from(Tensor::from(zeros, state.shape(), Device::cpu, Category::workspace));
  return state;
}

void add_loss(View state, View loss, int64_t samples, float beta) {
  launch<cpu::add_loss, cuda::add_loss>(state.device, state, loss, samples, beta);
}

void plan_step(View state, const StepPlan& plan) {
  launch<cpu::plan_step, cuda::plan_step>(state.device, state, plan);
}

void decide_step(View state, View partials) {
  launch<cpu::decide_step, cuda::decide_step>(state.device, state, partials);
}

void settle_buffers(View buffers, View before, View state) {
  launch<cpu::settle_buffers, cuda::settle_buffers>(state.device, buffers, before, state);
}

void count_step(View steps, View state) {
  launch<cpu::count_step, cuda::count_step>(state.device, steps, state);
}

}  // namespace accrue
