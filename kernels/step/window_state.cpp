#include "kernels/step/window_state.h"

#include <cstring>
#include <numeric>

#include "kernels/step/window_formulas.h"

namespace accrue {
namespace cpu {
namespace {

double sum_of(View partials) {
  const double* values = partials.as<const double>();
  return std::accumulate(values, values + partials.numel(), 0.0);
}

}  // namespace

void seed_gradient(View dloss, View state, double share) {
  dispatch_wide(dloss.dtype, [&]<class T>() {
    *dloss.as<T>() = static_cast<T>(window_state(state)->loss_scale.value * share);
  });
}

void judge_micro_batch(View state, View partials, View loss, int64_t samples, float beta) {
  dispatch_wide(loss.dtype, [&]<class T>() {
    formula::Judge{}(*window_state(state), sum_of(partials), double(*loss.as<T>()), samples, beta);
  });
}

void add_loss(View state, View loss, int64_t samples, float beta) {
  double& sum = window_state(state)->loss_sum;
  dispatch_wide(loss.dtype, [&]<class T>() {
    sum = blend(double(*loss.as<T>()) * double(samples), beta, sum);
  });
}

void add_terms(View state, std::span<const View> terms, int64_t samples, float beta,
               OfDropped of_dropped) {
  for (size_t i = 0; i < terms.size(); ++i)
    dispatch_wide(terms[i].dtype, [&]<class T>() {
      formula::AddTerm{}(*window_state(state), i, double(*terms[i].as<T>()), double(samples), beta,
                         of_dropped);
    });
}

void take_first_norm(View state, View partials) {
  window_state(state)->first_squares = sum_of(partials);
}

void plan_step(View state, const StepPlan& plan) { window_state(state)->plan = plan; }

void decide_step(View state, View partials) {
  formula::Decide{}(*window_state(state), sum_of(partials));
}

void veto_step(View state, View other) {
  formula::Veto{}(*window_state(state), *window_state(other));
}

void settle_buffers(View buffers, View before, View state, Settled what) {
  const bool skipped = formula::goes_back(*window_state(state), what);
  dispatch_wide(buffers.dtype, [&]<class T>() {
    T *now = buffers.as<T>(), *then = before.as<T>();
    if (skipped) std::copy_n(then, buffers.numel(), now);
    else std::copy_n(now, buffers.numel(), then);
  });
}

void count_step(View steps, View state) {
  if (window_state(state)->outcome.skipped == 0) *steps.as<double>() += 1;
}

void follow_loss(View y, View state, const StepFunction& f) {
  dispatch_wide(y.dtype,
                [&]<class T>() { formula::FollowLoss{}(*y.as<T>(), *window_state(state), f); });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::seed_gradient) seed_gradient;
decltype(cpu::add_loss) add_loss;
decltype(cpu::add_terms) add_terms;
decltype(cpu::judge_micro_batch) judge_micro_batch;
decltype(cpu::take_first_norm) take_first_norm;
decltype(cpu::plan_step) plan_step;
decltype(cpu::decide_step) decide_step;
decltype(cpu::veto_step) veto_step;
decltype(cpu::settle_buffers) settle_buffers;
decltype(cpu::count_step) count_step;
decltype(cpu::follow_loss) follow_loss;
}  // namespace cuda

Tensor make_window_state(Device device, double loss_scale) {
  Tensor state = Tensor::empty({sizeof(WindowState)}, DType::u8, device, Category::workspace);
  std::vector<uint8_t> bytes(sizeof(WindowState));
  WindowState initial{};
  initial.loss_scale.value = loss_scale;
  std::memcpy(bytes.data(), &initial, sizeof(initial));
  state.copy_from(Tensor::from(bytes, state.shape(), Device::cpu, Category::workspace));
  return state;
}

LossSeed loss_seed(View state, double share) {
  if (is_meta(state.device)) return {};
  return {.scale = {&window_state(state)->loss_scale.value, {}, DType::f64, state.device},
          .share = share};
}

LossSeed loss_seed(View state, double share, View loss, int64_t samples, float beta) {
  LossSeed seed = loss_seed(state, share);
  if (is_meta(state.device)) return seed;
  seed.loss = loss;
  seed.sum = {&window_state(state)->loss_sum, {}, DType::f64, state.device};
  seed.samples = double(samples);
  seed.beta = beta;
  return seed;
}

void seed_gradient(View dloss, View state, double share) {
  launch<cpu::seed_gradient, cuda::seed_gradient>(state.device, dloss, state, share);
}

void judge_micro_batch(View state, View partials, View loss, int64_t samples, float beta) {
  launch<cpu::judge_micro_batch, cuda::judge_micro_batch>(state.device, state, partials, loss,
                                                          samples, beta);
}

void add_loss(View state, View loss, int64_t samples, float beta) {
  launch<cpu::add_loss, cuda::add_loss>(state.device, state, loss, samples, beta);
}

void add_terms(View state, std::span<const View> terms, int64_t samples, float beta,
               OfDropped of_dropped) {
  check(terms.size() <= max_loss_terms,
        "{} numbers beside a loss are to be reported: expected at most {}", terms.size(),
        max_loss_terms);
  launch<cpu::add_terms, cuda::add_terms>(state.device, state, terms, samples, beta, of_dropped);
}

void take_first_norm(View state, View partials) {
  launch<cpu::take_first_norm, cuda::take_first_norm>(state.device, state, partials);
}

void plan_step(View state, const StepPlan& plan) {
  launch<cpu::plan_step, cuda::plan_step>(state.device, state, plan);
}

void decide_step(View state, View partials) {
  launch<cpu::decide_step, cuda::decide_step>(state.device, state, partials);
}

void veto_step(View state, View other) {
  launch<cpu::veto_step, cuda::veto_step>(state.device, state, other);
}

void settle_buffers(View buffers, View before, View state, Settled what) {
  launch<cpu::settle_buffers, cuda::settle_buffers>(state.device, buffers, before, state, what);
}

void count_step(View steps, View state) {
  launch<cpu::count_step, cuda::count_step>(state.device, steps, state);
}

void follow_loss(View y, View state, const StepFunction& f) {
  launch<cpu::follow_loss, cuda::follow_loss>(state.device, y, state, f);
}

}  // namespace accrue
