#pragma once

#include <optional>

#include "accumulate/decision.h"
#include "accumulate/loss_scale.h"
#include "accumulate/strategies.h"
#include "core/replay.h"

namespace accrue {

class Ranks;

// When ranks exchange gradients: after the last backward of a window, or while it runs. The results
// have the same bits either way. With `automatic` a training chooses; a window treats it as off.
enum class Overlap { off, on, automatic };

// The reaction to a gradient that is not finite.
enum class OnOverflow {
  skip_window,       // the whole window is skipped
  drop_micro_batch,  // the micro-batch that caused it is left out, and the window is a mean over
                     // the others. This needs Strategy::separate, to judge each micro-batch: one
                     // more gradient buffer, and two more passes over it for each micro-batch
  stop               // the window is skipped, and a training ends
};

// How the micro-batches of a window add up, and when one is skipped.
struct WindowOptions {
  int64_t effective_batch_size = 1;  // N
  Strategy strategy = Strategy::fused;
  // The seed of the random numbers that a strategy draws.
  uint64_t seed = 0;
  // The largest allowed global L2 norm of the window's gradient; a larger gradient is scaled down
  // to it.
  std::optional<double> clip_norm{};
  LossScale loss_scale{};
  OnOverflow on_overflow = OnOverflow::skip_window;
  // Keeps the moving average of the weights over the optimizer steps
  // (kernels/step/average_weights.h), as many bytes as the weights.
  std::optional<double> ema_decay{};
  // Estimates the gradient noise scale (accumulate/decision.h): costs one more pass over the
  // gradient for each window. For windows of several micro-batches and strategies that keep
  // gradients.
  NoiseScale noise_scale = NoiseScale::off;
  // On cuda: record micro-steps and steps once and replay them. The results have the same bits
  // either way.
  Graphs graphs = Graphs::on;
  // The processes that share the window's micro-batches (accumulate/ranks.h); must outlive the
  // window; null if there is only this one.
  Ranks* ranks = nullptr;
  // The same on all ranks. For strategy fused. It has no effect if the ranks do not reach the
  // device (accumulate/ranks.h), own shards, or have several optimizers. See Window::expect_last().
  Overlap overlap = Overlap::off;
};

namespace detail {

// Throws Error for options out of range, and for options that the strategy does not allow.
void check_options(const WindowOptions& options);

}  // namespace detail

}  // namespace accrue
