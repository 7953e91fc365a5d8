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

// How many windows the host may run ahead of the device.
inline constexpr int max_windows_in_flight = 8;

// Everything that the host knows about a step when it enqueues it.
struct StepPlan {
  double effective_batch_size;  // N
  double clip_norm;             // infinity for none
  // lr[i] is the learning rate of step first_step + i. Only the device knows which one applies,
  // because windows in flight may turn out to be skipped.
  int64_t first_step;
  std::array<double, max_windows_in_flight> lr;
  // How the loss scale changes (accumulate/loss_scale.h).
  double scale_growth, scale_backoff;
  int64_t scale_interval, scale_hysteresis;
};

// The loss scale of the current window, and the counts that decide its next change.
struct LossScaleState {
  double value;
  int64_t finite_windows, overflows;  // in a row; overflows since the last change
};

// Moving averages of the estimates of |G|^2 and tr(Sigma), see decide_step().
struct GradientNoise {
  double gradient_squared, trace;
};

// A window's counters, in device memory, so that a window never waits for the host.
struct WindowState {
  double loss_sum;                               // of loss * weight, so far
  std::array<double, max_loss_terms> term_sums;  // of term * weight, so far
  int64_t dropped_samples;                       // so far
  double accepted;  // 1: the micro-batch judged last counts; 0: it is dropped
  LossScaleState loss_scale;
  double first_squares;  // of the accumulator after the first micro-batch
  GradientNoise noise;
  StepPlan plan;
  double first_weight;  // of the first micro-batch, if take_first_norm() was called for it
  StepOutcome outcome;
  double loss_before;  // of the last unskipped window before the outcome's
};
// Checkpoints hold this struct as bytes: fields that outlive a window keep their offsets.
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

// The data on the parameters' device by which a window decides about its step.
struct StepDecision {
  Tensor state;     // u8 [sizeof(WindowState)], initially zero except for the loss scale
  Tensor partials;  // f64 [norm_partials], of the gradient's sum of squares (squared_norm.h)

  View outcome() const { return outcome_of(state).view(); }
};
StepDecision make_decision(Device device, double loss_scale);

// The seed loss_scale * weight / of, for a loss function whose backward begins with it. The
// overload with `loss` also makes that kernel do the work of add_loss().
LossSeed loss_seed(View state, const LossWeight& weight, double of);
LossSeed loss_seed(View state, const LossWeight& weight, double of, View loss, float beta);

// dloss as a tensor, for any other loss; also does the work of add_loss().
Tensor seed_gradient(const Tensor& loss, const LossSeed& seed);

// loss_sum = loss * weight + beta * loss_sum, and the sum of weights likewise. beta is 0 for a
// window's first micro-batch.
void add_loss(View state, View loss, const LossWeight& weight, float beta);

// Does the same for further numbers beside the loss, f32 or f64 [1] each, at most max_loss_terms.
// With DroppedTerms::leave_out, they do not count if the micro-batch judged last is dropped.
enum class DroppedTerms { count, leave_out };
void add_terms(View state, std::span<const View> terms, const LossWeight& weight, float beta,
               DroppedTerms dropped);

// add_loss() for a micro-batch that may be dropped. It is kept if its loss and the sum of
// `partials`, the partial sums of squares of its gradient, are finite; otherwise its samples are
// counted as dropped.
void judge_micro_batch(View state, View partials, View loss, const LossWeight& weight,
                       int64_t samples, float beta);

// Remembers the squared norm of the accumulator after the first micro-batch, from its partial sums
// of squares (accumulate/squared_norm.h).
void take_first_norm(View state, View partials);

// Writes the plan where decide_step() reads it. A separate call, because the plan differs from step
// to step and the work after it does not.
void plan_step(View state, const StepPlan& plan);

// From the partial sums of squares of the accumulated gradient (accumulate/squared_norm.h):
//   norm = sqrt(sum of partials) * N / W / loss_scale        loss = loss_sum / W
//   grad_scale = N / W / loss_scale * min(1, clip_norm / norm)
// W is the weight of the micro-batches that were not dropped. Counts the step unless W is 0, the
// loss is not finite, or grad_scale or the square of grad_scale * gradient, which Adam's v needs,
// overflows float32. Then sets the loss scale of the next window, unless W is 0. The loss scale
// does not fall below 1, because there it no longer enlarges gradients.
//
// On request, it also estimates the gradient noise scale (McCandlish et al. 2018, arXiv 1812.06162,
// appendix A.1), if take_first_norm() was called and 0 < b < B. Here b is the first micro-batch's
// weight and B the window's; g_b and g_B are the mean gradients of the first micro-batch and of the
// window; G is the true gradient and Sigma the covariance of a sample's gradient.
//   E |g_b|^2 = |G|^2 + tr(Sigma) / b                 and the same for B; without bias:
//   |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)         tr(Sigma) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
// The first micro-batch is part of the window, which only correlates the two errors. Both estimates
// are noisy, so a moving average of each moves 1 % of the way to the new one in each step.
//
// noise_scale is B_simple = tr(Sigma) / |G|^2 of these averages, in the unit of the weights. If
// weights count tokens as fractions of a row, Sigma is the covariance of a whole row's tokens and
// B_simple a number of rows.
void decide_step(View state, View partials, NoiseScale noise_scale = NoiseScale::off);

// Call this between decide_step() and the work that depends on it: skips this step if the other
// window's step is skipped.
void veto_step(View state, View other);

// After a step `buffers` become the values to return to; after a skipped step they return to
// `before`:
//   skipped: buffers = before        else: before = buffers
// Works the same for a micro-batch, which is kept or dropped.
enum class Transaction { step, micro_batch };
void settle_buffers(View buffers, View before, View state, Transaction transaction);

// A function of a number that is constant between thresholds: its value is values[i] if exactly i
// of the bounds, which ascend, are less than or equal to the argument.
struct StepFunction {
  std::array<double, 4> bounds;
  std::array<double, 5> values;
};

// y[0] = f(the loss of the last window that was not skipped), y f32 or f64 [1]. Leaves y unchanged
// if there was no such window.
void follow_loss(View y, View state, const StepFunction& f);

}  // namespace detail

}  // namespace accrue
