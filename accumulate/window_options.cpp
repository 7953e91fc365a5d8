#include "accumulate/window_options.h"

#include <cmath>
#include <limits>

#include "accumulate/ranks.h"
#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

void check_loss_scale(const LossScale& scale) {
  // The loss scale and its inverse must be normal float32 numbers.
  check(scale.initial >= 0x1p-126 && scale.initial <= 0x1p126,
        "loss scale {}: expected from 2^-126 to 2^126", scale.initial);
  check(!scale.is_dynamic() || (scale.growth >= 1 && std::isfinite(scale.growth) &&
                                scale.backoff > 0 && scale.backoff < 1),
        "the loss scale grows by {} and backs off by {}: expected 1 or more, and above 0 and below "
        "1",
        scale.growth, scale.backoff);
  check(scale.interval > 0 && scale.hysteresis > 0,
        "the loss scale grows after {} windows and backs off after {}: expected 1 or more",
        scale.interval, scale.hysteresis);
}

}  // namespace

void detail::check_options(const WindowOptions& options) {
  check(options.effective_batch_size > 0, "effective batch size {}: expected 1 or more",
        options.effective_batch_size);
  // The step's factor is a float32.
  constexpr double least = std::numeric_limits<float>::min();
  check(!options.clip_norm || *options.clip_norm >= least, "clip norm {}: expected {:.2g} or more",
        options.clip_norm.value_or(0), least);
  check_loss_scale(options.loss_scale);
  check(!options.ema_decay || (*options.ema_decay >= 0 && *options.ema_decay < 1),
        "decay of the weights' average {}: expected in [0, 1)", options.ema_decay.value_or(0));
  const StrategyFacts& strategy = facts_of(options.strategy);
  const bool drops = strategy.drops_gradients;
  check(!drops || !options.clip_norm,
        "strategy {} never has the whole gradient, so it cannot clip its norm: expected no clip "
        "norm, or another strategy",
        strategy.name);
  check(!drops || options.noise_scale == NoiseScale::off,
        "strategy {} never has the whole gradient, so it cannot estimate its noise scale: expected "
        "no noise scale, or another strategy",
        strategy.name);
  check(
      !drops || !options.loss_scale.is_dynamic(),
      "strategy {} uses up each gradient before the window's are known to be finite, so no window "
      "can be skipped for an overflow: expected a constant loss scale, or another strategy",
      strategy.name);
  check(
      options.overlap != Overlap::on || strategy.has_final_gradients,
      "only strategy fused has final gradients during the last backward of a window: expected it, "
      "or no exchange meanwhile");
  check(!strategy.is_for_one_process || !options.ranks || options.ranks->count() == 1,
        "strategy {} has a sum that ranks cannot exchange: expected one process, or another "
        "strategy",
        strategy.name);
  const bool dropping = options.on_overflow == OnOverflow::drop_micro_batch;
  check(!dropping || strategy.judges_micro_batches,
        "to drop a micro-batch (on_overflow) its gradient must lie apart from the sum until it is "
        "judged: "
        "expected strategy separate");
  check(!dropping || options.noise_scale == NoiseScale::off,
        "the noise scale compares a window with its first micro-batch, which may be dropped: "
        "expected no noise scale, or to skip whole windows");
}

}  // namespace accrue
