#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/autograd.h"
#include "kernels/step/step_outcome.h"

namespace accrue {

// Whether a window estimates the gradient noise scale (detail::decide_step()).
enum class NoiseScale { off, estimate };

namespace detail {

// The number of windows that the host may be ahead of the device.
inline constexpr int max_windows_in_flight = 8;

// Holds all that the host knows of a step when it enqueues it.
struct StepPlan {
  double effective_batch_size;  // N
  double clip_norm;             // infinity for none
  // The learning rate of step first_step + i. Which it will be, the device knows alone: windows
  // in flight may turn out to be skipped.
  int64_t first_step;
  std::array<double, max_windows_in_flight> lr;
  // How the loss scale changes (accumulate/loss_scale.h).
  double scale_growth, scale_backoff;
  int64_t scale_interval, scale_hysteresis;
};

// The loss scale of the window under way, and what its next change depends on.
struct LossScaleState {
  double value;
  int64_t finite_windows, overflows;  // in a row; since the last change
};

// Moving sums of the estimates of |G|^2 and tr(Sigma), see decide_step().
struct GradientNoise {
  double gradient_squared, trace;
};

// A window's counters, in device memory, so that nothing in a window waits for the host.
struct WindowState {
  double loss_sum;                               // each times its weight, so far
  std::array<double, max_loss_terms> term_sums;  // likewise
  int64_t dropped_samples;                       // so far
  double accepted;  // 1: the micro-batch judged last counts, 0: it is dropped
  LossScaleState loss_scale;
  double first_squares;  // of the accumulator after the first micro-batch
  GradientNoise noise;
  StepPlan plan;
  double first_weight;  // of the first micro-batch, if take_first_norm() was called for it
  StepOutcome outcome;
  double loss_before;  // of the last window that was not skipped, before the outcome's
};
// Checkpoints hold it as bytes: what outlives a window keeps its place.
static_assert(offsetof(WindowState, loss_scale) == 88 && offsetof(WindowState, noise) == 120 &&
              offsetof(WindowState, outcome) == 264 && sizeof(WindowState) == 424);

// The only element of a state tensor u8 [sizeof(WindowState)].
inline WindowState* window_state(const View& state) {
  return reinterpret_cast<WindowState*>(state.as<uint8_t>());
}
// WindowState::accepted, f64 [1].
View accepted_of(View state);
// The part of a state tensor that is its StepOutcome, which the step's kernels read.
Tensor outcome_of(const Tensor& state);

// What a window decides by, on the device of its parameters.
struct StepDecision {
  Tensor state;     // u8 [sizeof(WindowState)], at first zero but for the loss scale
  Tensor partials;  // f64 [norm_partials], of the gradient's sum of squares (squared_norm.h)

  View outcome() const { return outcome_of(state).view(); }
};
StepDecision make_decision(Device device, double loss_scale);

// loss_scale * weight / of, for a loss that begins its backward with it; with `loss`, it also does
// what add_loss() does.
LossSeed loss_seed(View state, const LossWeight& weight, double of);
LossSeed loss_seed(View state, const LossWeight& weight, double of, View loss, float beta);

// dloss, for any other loss: the same as a tensor, with add_loss() done.
Tensor seed_gradient(const Tensor& loss, const LossSeed& seed);

// loss_sum = loss * weight + beta * loss_sum, and the weight likewise, beta 0 for a window's first
// micro-batch.
void add_loss(View state, View loss, const LossWeight& weight, float beta);

// Likewise of numbers beside the loss, f32 or f64 [1] each, at most max_loss_terms.
// DroppedTerms::leave_out: they do not count if the last micro-batch judged is dropped.
enum class DroppedTerms { count, leave_out };
void add_terms(View state, std::span<const View> terms, const LossWeight& weight, float beta,
               DroppedTerms dropped);

// add_loss() for a micro-batch that may be dropped: if its loss and the sum of the partial sums of
// squares of its gradient are finite, it is kept; else its samples are counted as dropped.
void judge_micro_batch(View state, View partials, View loss, const LossWeight& weight,
                       int64_t samples, float beta);

// Remembers the sum of the partial sums of squares (accumulate/squared_norm.h) of what the first
// micro-batch has put into the accumulator.
void take_first_norm(View state, View partials);

// Puts the plan where decide_step() finds it. Apart from it, because it differs from step to step,
// and what follows does not.
void plan_step(View state, const StepPlan& plan);

// From the partial sums of squares of the accumulated gradient (accumulate/squared_norm.h):
//   norm = sqrt(sum of partials) * N / W / loss_scale        loss = loss_sum / W
//   grad_scale = N / W / loss_scale * min(1, clip_norm / norm)
// with the weight W of the micro-batches that were not dropped. Counts the step unless W is 0, the
// loss is not finite, or float32 has no room for grad_scale or for the square of grad_scale *
// gradient, which is in Adam's v. Then, unless W is 0, the loss scale of the next window, which
// does not fall below 1, where it lifts nothing any more.
//
// Where asked to, it also estimates the gradient noise scale (McCandlish et al. 2018, arXiv
// 1812.06162, appendix A.1), if take_first_norm() was called and 0 < b < B, b the first
// micro-batch's weight and B the window's. With g_b and g_B the mean gradients of the first
// micro-batch and of the window, G the true gradient and Sigma a sample's covariance,
//   E |g_b|^2 = |G|^2 + tr(Sigma) / b                 and the same for B, hence without bias
//   |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)         tr(Sigma) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
// That the first micro-batch is part of the window only couples their errors. Both are noisy: each
// moves 1 % of its way to the new one a step, and noise_scale is B_simple = tr(Sigma) / |G|^2 of
// what has gathered, in the unit of the weights: where these count tokens as parts of a row, Sigma
// is the covariance of so many tokens as a row has, and B_simple a number of rows.
void decide_step(View state, View partials, NoiseScale noise_scale = NoiseScale::off);

// Between decide_step() and what depends on it: skips the step if the other window skips its own.
void veto_step(View state, View other);

// After a step the buffers are the ones to go back to; after a skipped one they go back:
//   skipped: buffers = before        else: before = buffers
// Likewise after a micro-batch that was kept, or dropped.
enum class Transaction { step, micro_batch };
void settle_buffers(View buffers, View before, View state, Transaction transaction);

// A number that is constant between thresholds of another: values[i] where i bounds, in ascending
// order, are at most as large.
struct StepFunction {
  std::array<double, 4> bounds;
  std::array<double, 5> values;
};

// y[0] = f(the loss of the last window that was not skipped), y f32 or f64 [1]. As it is if there
// was none.
void follow_loss(View y, View state, const StepFunction& f);

}  // namespace detail

}  // namespace accrue
