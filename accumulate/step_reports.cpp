#include "accumulate/step_reports.h"

#include <cmath>

#include "core/inside.h"

namespace accrue {

StepPlan detail::plan_of(const WindowOptions& options, const Schedule& schedule, int64_t taken) {
  StepPlan plan{.effective_batch_size = double(options.effective_batch_size),
                .clip_norm = options.clip_norm.value_or(std::numeric_limits<double>::infinity()),
                .first_step = taken,
                .lr = {},
                .scale_growth = options.loss_scale.growth,
                .scale_backoff = options.loss_scale.backoff,
                .scale_interval = options.loss_scale.interval,
                .scale_hysteresis = options.loss_scale.hysteresis};
  for (size_t i = 0; i < plan.lr.size(); ++i) plan.lr[i] = schedule.lr(taken + int64_t(i));
  return plan;
}

StepReports::StepReports(const Accumulator& accumulator, Device device)
    : accumulator_(accumulator),
      is_meta_(accrue::is_meta(device)),
      outcomes_(device, sizeof(StepOutcome), max_windows_in_flight) {}

void StepReports::push(const WindowCounts& window, double lr, const View& state) {
  if (!is_meta_) outcomes_.push(&window_state(state)->outcome);
  in_flight_.push_back({.micro_batches = window.micro_batches,
                        .samples = window.samples,
                        .terms = std::vector<double>(window.terms),
                        .lr = lr});
}

void StepReports::make_room() {
  if (in_flight_.size() == max_windows_in_flight) take_oldest();
}

std::vector<StepReport> StepReports::take(Wait wait) {
  while (!in_flight_.empty() && (wait == Wait::yes || is_meta_ || outcomes_.ready())) take_oldest();
  return std::exchange(arrived_, {});
}

StepReport StepReports::take_last() {
  std::vector<StepReport> all = take(Wait::yes);
  const StepReport last = all.back();
  all.pop_back();
  arrived_ = std::move(all);
  return last;
}

void StepReports::take_oldest() {
  StepReport report = in_flight_.front();
  in_flight_.pop_front();
  StepOutcome outcome{.steps = taken_ + 1};  // on a meta device, this is all that is known
  if (!is_meta_) outcomes_.pop(&outcome);
  taken_ = outcome.steps;
  // A NaN has a sign bit, which would be printed.
  const auto unsigned_nan = [](double x) { return std::isnan(x) ? std::nan("") : x; };
  report.step = outcome.steps;
  report.loss = unsigned_nan(outcome.loss);
  for (size_t i = 0; i < report.terms.size(); ++i) report.terms[i] = unsigned_nan(outcome.terms[i]);
  report.grad_norm = accumulator_.sum().defined() ? unsigned_nan(outcome.grad_norm) : std::nan("");
  report.skipped = outcome.skipped != Skipped::no;
  report.no_weight = outcome.skipped == Skipped::no_weight;
  report.overflow = outcome.overflow != 0;
  report.dropped_samples = outcome.dropped_samples;
  report.samples -= outcome.dropped_samples;
  report.weight = is_meta_ ? double(report.samples) : outcome.weight;
  if (!is_meta_) {
    report.lr = outcome.lr;
    report.noise_scale = outcome.noise_scale;
    report.loss_scale = outcome.loss_scale;
  }
  accumulator_.check_outcome(outcome);
  arrived_.push_back(report);
}

}  // namespace accrue
