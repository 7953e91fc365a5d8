#include "train/skipped_windows.h"

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "train/score.h"

namespace accrue {
namespace {

bool is_finite(const Tensor& x) {
  const Tensor host = x.to(Device::cpu, Category::workspace);
  return dispatch_floating(host.dtype(), [&]<class T>() {
    return std::ranges::all_of(host.span<T>(), [](T v) { return std::isfinite(widen(v)); });
  });
}

}  // namespace

SkippedWindows::SkippedWindows(Training& training, const TrainingOptions& options,
                               const Dataset& data, const Player& player)
    : training_(training),
      options_(options),
      data_(data),
      player_(player),
      dynamic_scale_(player.window.options().loss_scale.is_dynamic()) {}

void SkippedWindows::add_state(StateDict& dict) {
  dict.numbers.emplace_back(player_.named("skipped_in_a_row"), &in_a_row_);
  dict.numbers.emplace_back(player_.named("skipped_from_loss_scale"), &from_scale_);
}

std::string SkippedWindows::whose() const {
  return player_.name.empty() ? "the" : fmt::format("the {}'s", player_.name);
}

void SkippedWindows::end() const {
  if (player_.window.steps() > 0 || in_a_row_ == 0) return;
  throw Divergence(
      fmt::format("{} loss or its gradient was not finite in {}, and no step was taken: {}",
                  whose(), counted(in_a_row_, "window"), reason(last_window_)));
}

void SkippedWindows::see(const WindowReport& report) {
  last_window_ = report.window;
  if (report.no_weight) {  // no sign of trouble, unless all windows are like this
    const int64_t epoch = training_.loader().windows_per_epoch();
    ++without_weight_;
    check(without_weight_ < std::max(epoch, options_.max_skipped),
          "nothing is judged in {} windows in a row (an epoch has {}): expected data with "
          "something to judge",
          without_weight_, epoch);
    return;
  }
  without_weight_ = 0;
  // Finding the culprit takes a pass over the window, so do it only for an error.
  if (report.overflow && options_.on_overflow == OnOverflow::stop)
    throw Divergence(fmt::format(
        "{} gradient of window {} is not finite (loss {}, loss scale {:g}), which is to end the "
        "run: {}",
        whose(), report.window + 1, report.loss, report.loss_scale, culprit(report.window)));
  if (!report.skipped) {
    if (!first_) first_ = report;
    last_ = report;
    in_a_row_ = 0;
    from_scale_ = std::numeric_limits<double>::infinity();
  } else if (report.overflow && std::isfinite(report.loss) && dynamic_scale_ &&
             report.loss_scale > 1 && report.loss_scale <= from_scale_ / 2) {
    // While the loss scale still falls, a smaller one may help.
    in_a_row_ = 0;
    from_scale_ = report.loss_scale;
  } else if (report.overflow || !std::isfinite(report.loss)) {
    ++in_a_row_;
  }  // Otherwise this window was skipped because another player's was.
  if (in_a_row_ >= options_.max_skipped)
    throw Divergence(
        fmt::format("{} loss or its gradient was not finite in {} windows in a row (after step {}, "
                    "loss {}): {}",
                    whose(), in_a_row_, report.step, report.loss, reason(report.window)));
}

// If earlier losses were finite, the steps have caused the trouble; the present values are its
// consequence.
std::string SkippedWindows::reason(int64_t window) const {
  if (last_) {
    const auto loss_of = [](const StepReport& report) {
      return fmt::format("{:.4g} in step {}", report.loss, report.step);
    };
    const std::string before =
        first_->step < last_->step ? fmt::format("{} and ", loss_of(*first_)) : "";
    return fmt::format(
        "the loss was {}{}, the last in which it was finite, with a gradient of norm {:.4g} and a "
        "learning rate of {:.3g}: lower the learning rate, or clip the gradient's norm; now {}",
        before, loss_of(*last_), last_->grad_norm, last_->lr, culprit(window));
  }
  return culprit(window) +
         "; check the data and the initial weights, lower the learning rate, or clip the "
         "gradient's norm";
}

std::string SkippedWindows::culprit(int64_t window) const {
  for (const auto& [name, tensor] : training_.named_tensors())
    if (!is_finite(tensor)) return fmt::format("{} is not finite", name);

  const NoGrad no_grad;
  Loader loader(data_, {.effective_batch_size = training_.batches().effective,
                        .micro_batch_size = 1,
                        .seed = options_.seed,
                        .shuffle = options_.shuffle ? Shuffle::on : Shuffle::off,
                        .device = training_.device(),
                        .dtype = training_.parameters().compute_dtype(),
                        .augment = Augment::yes});
  const int64_t per_epoch = loader.windows_per_epoch();
  loader.start_epoch(window / per_epoch, window % per_epoch);
  while (const MicroBatch* sample = loader.next()) {
    if (!is_finite(player_.loss(*sample, Pass::eval()).value))
      return fmt::format("the first sample with such a result is number {} of {}",
                         sample->indices.to(Device::cpu).span<int32_t>()[0], data_.name);
    if (sample->ends_window) break;
  }
  return "every sample alone has a finite loss, so it arises in the gradient";
}

}  // namespace accrue
