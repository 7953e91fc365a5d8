#include "accumulate/decision.h"

#include <cstring>
#include <numeric>

#include "accumulate/decision_formulas.h"
#include "accumulate/squared_norm.h"
#include "kernels/detail/loss_seed.h"

namespace accrue {
namespace cpu {
namespace {

double sum_of(View partials) {
  const double* values = partials.as<const double>();
  return std::accumulate(values, values + partials.numel(), 0.0);
}

}  // namespace

void seed_gradient(View dloss, const LossSeed& seed) {
  dispatch_wide(dloss.dtype, [&]<class T>() { *dloss.as<T>() = Seed<T>(seed).dloss(); });
}

void judge_micro_batch(View state, View partials, View loss, const LossWeight& weight,
                       int64_t samples, float beta) {
  dispatch_wide(loss.dtype, [&]<class T>() {
    formula::Judge{}(*window_state(state), sum_of(partials), double(*loss.as<T>()),
                     DeviceWeight(weight).value(), samples, beta);
  });
}

void add_loss(const LossSeed& seed) {
  dispatch_wide(seed.loss.dtype, [&]<class T>() { Seed<T>(seed).add_loss(); });
}

void add_terms(View state, std::span<const View> terms, const LossWeight& weight, float beta,
               DroppedTerms dropped) {
  for (size_t i = 0; i < terms.size(); ++i)
    dispatch_wide(terms[i].dtype, [&]<class T>() {
      formula::AddTerm{}(*window_state(state), i, double(*terms[i].as<T>()),
                         DeviceWeight(weight).value(), beta, dropped);
    });
}

void take_first_norm(View state, View partials) {
  WindowState& window = *window_state(state);
  window.first_squares = sum_of(partials);
  window.first_weight = window.outcome.weight;
}

void plan_step(View state, const StepPlan& plan) { window_state(state)->plan = plan; }

void decide_step(View state, View partials, NoiseScale noise_scale) {
  formula::Decide{noise_scale}(*window_state(state), sum_of(partials));
}

void veto_step(View state, View other) {
  formula::Veto{}(*window_state(state), *window_state(other));
}

void settle_buffers(View buffers, View before, View state, Transaction transaction) {
  const bool skipped = formula::rolls_back(*window_state(state), transaction);
  dispatch_wide(buffers.dtype, [&]<class T>() {
    T *now = buffers.as<T>(), *then = before.as<T>();
    if (skipped) std::copy_n(then, buffers.numel(), now);
    else std::copy_n(now, buffers.numel(), then);
  });
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
decltype(cpu::follow_loss) follow_loss;
}  // namespace cuda

View detail::accepted_of(View state) {
  return {is_meta(state.device) ? nullptr : &window_state(state)->accepted,
          {1},
          DType::f64,
          state.device};
}

Tensor detail::outcome_of(const Tensor& state) {
  constexpr int64_t begin = offsetof(WindowState, outcome);
  return state.slice(begin, begin + int64_t(sizeof(StepOutcome)));
}

StepDecision detail::make_decision(Device device, double loss_scale) {
  WindowState initial{};
  initial.loss_scale.value = loss_scale;
  std::vector<uint8_t> bytes(sizeof(initial));
  std::memcpy(bytes.data(), &initial, sizeof(initial));
  return {Tensor::from(bytes, {sizeof(initial)}, device, Category::workspace),
          Tensor::empty({norm_partials}, DType::f64, device, Category::workspace)};
}

LossSeed detail::loss_seed(View state, const LossWeight& weight, double of) {
  if (is_meta(state.device)) return {};
  return {.scale = {&window_state(state)->loss_scale.value, {}, DType::f64, state.device},
          .weight = weight,
          .of = of};
}

LossSeed detail::loss_seed(View state, const LossWeight& weight, double of, View loss, float beta) {
  LossSeed seed = loss_seed(state, weight, of);
  seed.loss = loss;
  if (is_meta(state.device)) return seed;
  seed.loss_sum = {&window_state(state)->loss_sum, {}, DType::f64, state.device};
  seed.weight_sum = {&window_state(state)->outcome.weight, {}, DType::f64, state.device};
  seed.beta = beta;
  return seed;
}

Tensor detail::seed_gradient(const Tensor& loss, const LossSeed& seed) {
  const Device device = loss.view().device;  // view() also computes a loss that waits
  if (seed.loss.data) launch<cpu::add_loss, cuda::add_loss>(device, seed);
  const MemoryScope scope("loss");
  Tensor dloss = Tensor::empty(loss.shape(), loss.dtype(), device);
  launch<cpu::seed_gradient, cuda::seed_gradient>(device, dloss.view(), seed);
  return dloss;
}

void detail::judge_micro_batch(View state, View partials, View loss, const LossWeight& weight,
                               int64_t samples, float beta) {
  launch<cpu::judge_micro_batch, cuda::judge_micro_batch>(state.device, state, partials, loss,
                                                          weight, samples, beta);
}

void detail::add_loss(View state, View loss, const LossWeight& weight, float beta) {
  launch<cpu::add_loss, cuda::add_loss>(state.device, loss_seed(state, weight, 1, loss, beta));
}

void detail::add_terms(View state, std::span<const View> terms, const LossWeight& weight,
                       float beta, DroppedTerms dropped) {
  check(terms.size() <= max_loss_terms,
        "{} numbers beside a loss are to be reported: expected at most {}", terms.size(),
        max_loss_terms);
  launch<cpu::add_terms, cuda::add_terms>(state.device, state, terms, weight, beta, dropped);
}

void detail::take_first_norm(View state, View partials) {
  launch<cpu::take_first_norm, cuda::take_first_norm>(state.device, state, partials);
}

void detail::plan_step(View state, const StepPlan& plan) {
  launch<cpu::plan_step, cuda::plan_step>(state.device, state, plan);
}

void detail::decide_step(View state, View partials, NoiseScale noise_scale) {
  launch<cpu::decide_step, cuda::decide_step>(state.device, state, partials, noise_scale);
}

void detail::veto_step(View state, View other) {
  launch<cpu::veto_step, cuda::veto_step>(state.device, state, other);
}

void detail::settle_buffers(View buffers, View before, View state, Transaction transaction) {
  launch<cpu::settle_buffers, cuda::settle_buffers>(state.device, buffers, before, state,
                                                    transaction);
}

void detail::follow_loss(View y, View state, const StepFunction& f) {
  launch<cpu::follow_loss, cuda::follow_loss>(state.device, y, state, f);
}

}  // namespace accrue
