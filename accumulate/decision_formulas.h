#pragma once

#include <cmath>
#include <limits>

#include "accumulate/decision.h"
#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue::detail::formula {

// An infinity or a NaN minus itself is NaN.
HOST_DEVICE inline bool is_finite(double x) { return x - x == 0; }

// True if x >= 0 is at most float32's largest number; false for NaN.
HOST_DEVICE inline bool fits(double x) { return x <= std::numeric_limits<float>::max(); }

HOST_DEVICE inline bool rolls_back(const WindowState& state, Transaction transaction) {
  return transaction == Transaction::step ? state.outcome.skipped != Skipped::no
                                          : state.accepted == 0;
}

// The part of judge_micro_batch() after the sum, for both devices.
struct Judge {
  HOST_DEVICE void operator()(WindowState& state, double sum_of_squares, double loss, double weight,
                              int64_t samples, float beta) const {
    if (beta == 0) state.loss_sum = 0, state.outcome.weight = 0, state.dropped_samples = 0;
    state.accepted = is_finite(sum_of_squares) && is_finite(loss) ? 1 : 0;
    if (state.accepted) state.loss_sum += loss * weight, state.outcome.weight += weight;
    else state.dropped_samples += samples;
  }
};

// add_terms() for term number i, for both devices.
struct AddTerm {
  HOST_DEVICE void operator()(WindowState& state, size_t i, double term, double weight, float beta,
                              DroppedTerms dropped) const {
    double& sum = state.term_sums[i];
    if (beta == 0) sum = 0;
    if (dropped == DroppedTerms::count || state.accepted != 0) sum += term * weight;
  }
};

// follow_loss(), for both devices.
struct FollowLoss {
  template <class T>
  HOST_DEVICE void operator()(T& y, const WindowState& state, const StepFunction& f) const {
    const StepOutcome& last = state.outcome;
    if (last.steps == 0) return;
    const double loss = last.skipped == Skipped::no ? last.loss : state.loss_before;
    size_t i = 0;
    while (i < f.bounds.size() && f.bounds[i] <= loss) ++i;
    y = static_cast<T>(f.values[i]);
  }
};

// veto_step(), for both devices.
struct Veto {
  HOST_DEVICE void operator()(WindowState& state, const WindowState& other) const {
    StepOutcome& out = state.outcome;
    if (other.outcome.skipped == Skipped::no || out.skipped != Skipped::no) return;
    out.skipped = other.outcome.skipped;
    --out.steps;
  }
};

// The part of decide_step() after the sum, for both devices.
struct Decide {
  NoiseScale noise_scale;

  HOST_DEVICE void operator()(WindowState& state, double sum_of_squares) const {
    const StepPlan& plan = state.plan;
    StepOutcome& out = state.outcome;
    if (out.steps > 0 && out.skipped == Skipped::no) state.loss_before = out.loss;
    const bool no_weight = out.weight == 0 && state.dropped_samples == 0;
    const double unscale = plan.effective_batch_size / out.weight / state.loss_scale.value;
    const double root = std::sqrt(sum_of_squares);
    out.loss = state.loss_sum / out.weight;
    for (size_t i = 0; i < max_loss_terms; ++i) out.terms[i] = state.term_sums[i] / out.weight;
    out.grad_norm = root * unscale;
    out.lr = plan.lr[static_cast<size_t>(out.steps - plan.first_step)];
    out.grad_scale =
        out.grad_norm > plan.clip_norm ? unscale * (plan.clip_norm / out.grad_norm) : unscale;
    const double stepped_by = out.grad_scale * root;
    const bool finite =
        is_finite(out.loss) && fits(out.grad_scale) && fits(stepped_by * stepped_by);
    out.skipped = no_weight ? Skipped::no_weight : finite ? Skipped::no : Skipped::not_finite;
    if (finite) ++out.steps;
    if (finite && noise_scale == NoiseScale::estimate)
      add_noise(state, out.grad_norm * out.grad_norm);
    const GradientNoise& noise = state.noise;
    out.noise_scale = noise.gradient_squared > 0 && noise.trace > 0
                          ? noise.trace / noise.gradient_squared
                          : std::numeric_limits<double>::quiet_NaN();
    out.loss_scale = state.loss_scale.value;
    out.dropped_samples = state.dropped_samples;
    out.overflow = !no_weight && (state.dropped_samples > 0 || !is_finite(out.grad_norm)) ? 1 : 0;
    state.dropped_samples = 0;
    if (!no_weight) change_loss_scale(state.loss_scale, plan, out.overflow != 0);
  }

 private:
  HOST_DEVICE static void change_loss_scale(LossScaleState& scale, const StepPlan& plan,
                                            bool overflow) {
    if (overflow) {
      scale.finite_windows = 0;
      if (++scale.overflows < plan.scale_hysteresis) return;
      if (scale.value > 1) scale.value = std::fmax(1.0, scale.value * plan.scale_backoff);
      scale.overflows = 0;
    } else if (++scale.finite_windows == plan.scale_interval) {
      const double grown = scale.value * plan.scale_growth;
      if (fits(grown)) scale.value = grown;
      scale.finite_windows = scale.overflows = 0;
    }
  }

  // `big` is |g_B|^2.
  HOST_DEVICE static void add_noise(WindowState& state, double big) {
    const StepPlan& plan = state.plan;
    const double b = state.first_weight, B = state.outcome.weight;
    if (!(b > 0 && b < B)) return;
    const double unscale = plan.effective_batch_size / b / state.loss_scale.value;
    const double small = state.first_squares * unscale * unscale;
    state.noise.gradient_squared +=
        0.01 * ((B * big - b * small) / (B - b) - state.noise.gradient_squared);
    state.noise.trace += 0.01 * ((small - big) / (1 / b - 1 / B) - state.noise.trace);
  }
};

}  // namespace accrue::detail::formula
