#pragma once

#include <array>
#include <cstdint>

#include "core/autograd.h"

namespace accrue {

// Windows that the host may be behind the device.
inline constexpr int max_windows_in_flight = 8;

// What the host knows of a step when it enqueues it.
struct StepPlan {
  double effective_batch_size;  // N
  double samples;               // N_actual
  double loss_scale;
  double clip_norm;  // infinity for none
  // The learning rate of step first_step + i. Which it will be, the device knows alone: windows
  // in flight may turn out to be skipped.
  int64_t first_step;
  std::array<double, max_windows_in_flight> lr;
};

// What became of a step.
struct StepOutcome {
  int64_t steps;     // optimizer steps taken, this one included unless it is skipped
  double loss;       // mean over the window's samples
  double grad_norm;  // of the mean gradient, before clipping
  double lr;
  double grad_scale;  // N / N_actual / loss_scale * clip: what turns the sum into the gradient
  int64_t skipped;    // 1: the loss or the norm is not finite, nothing changes
};

// A window's counters, in device memory, so that nothing in a window waits for the host.
struct WindowState {
  double loss_sum;  // over the samples so far
  StepPlan plan;
  StepOutcome outcome;
};

// The only element of a state tensor u8 [sizeof(WindowState)], which starts zeroed.
inline WindowState* window_state(const View& state) {
  return reinterpret_cast<WindowState*>(state.as<uint8_t>());
}
Tensor make_window_state(Device device);

// loss_sum = loss * samples + beta * loss_sum, beta 0 for a window's first micro-batch.
void add_loss(View state, View loss, int64_t samples, float beta);

// Puts the plan where decide_step() finds it. Apart from it, because it differs from step to step,
// and what follows does not.
void plan_step(View state, const StepPlan& plan);

// From the partial sums of squares of the accumulated gradient (kernels/accumulate.h):
//   norm = sqrt(sum of partials) * N / N_actual / loss_scale        loss = loss_sum / N_actual
//   grad_scale = N / N_actual / loss_scale * min(1, clip_norm / norm)
// and, unless norm or loss is not finite, counts the step.
void decide_step(View state, View partials);

// After a step the buffers are the ones to go back to; after a skipped one they go back:
//   skipped: buffers = before        else: before = buffers
void settle_buffers(View buffers, View before, View state);

// steps += 1 unless the step is skipped. steps f64 [1]: an optimizer's own count, Adam's t.
void count_step(View steps, View state);

}  // namespace accrue
