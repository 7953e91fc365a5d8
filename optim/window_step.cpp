// The end of a window: what its gradients are by now decides on the device whether it steps, by how
// much, and what is reported. Its micro-batches are in window.cpp.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/accumulate.h"
#include "kernels/step/average_weights.h"
#include "kernels/step/window_state.h"
#include "optim/window.h"

namespace accrue {
namespace {

Parameters::Range common(Parameters::Range a, Parameters::Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

StepReport Window::step() {
  enqueue_step();
  std::vector<StepReport> all = reports(Wait::yes);
  const StepReport last = all.back();
  // Those of earlier steps remain for reports().
  all.pop_back();
  reports_ = std::move(all);
  return last;
}

void Window::enqueue_step() {
  const MemoryScope scope(Phase::step);
  prepare_step();
  steps_.run({Part::whole, claims()}, [this] { run_step(Part::whole); });
  finish_step();
}

void Window::enqueue_together(const std::vector<Window*>& windows) {
  check(!windows.empty(), "no windows to step together: expected one or more");
  const MemoryScope scope(Phase::step);
  for (Window* window : windows) {
    check(window->device_ == windows.front()->device_,
          "windows on {} and {} cannot step together: expected one device",
          name(windows.front()->device_), name(window->device_));
    check(window->can_abandon(),
          "windows that step together are skipped together, which strategies moments and "
          "step-in-backward cannot be: expected fused or separate");
    window->prepare_step();
  }
  const auto run = [&](Part part) {
    for (Window* window : windows)
      window->steps_.run({part, window->claims()}, [=] { window->run_step(part); });
  };
  run(Part::decide);
  // The first learns from all, then all from the first.
  Window& first = *windows.front();
  for (Window* window : windows) veto_step(first.state_.view(), window->state_.view());
  for (Window* window : windows) veto_step(window->state_.view(), first.state_.view());
  run(Part::apply);
  for (Window* window : windows) window->finish_step();
}

void Window::prepare_step() {
  if (has_others()) add_other_ranks();
  check(samples_ > 0, "step() of a window without micro-batches");
  check(options_.strategy != Strategy::moments || samples_ == expected_samples_,
        "step() of a window of {} samples, whose gradients were folded as shares of {}: expect() "
        "the size of a short window before its first micro-batch",
        samples_, expected_samples_);
  tell_device();
}

void Window::finish_step() {
  if (!is_meta(device_)) outcomes_.push(&window_state(state_.view())->outcome);
  in_flight_.push_back({.micro_batches = micro_batches_,
                        .samples = samples_,
                        .terms = std::vector<double>(terms_),
                        .lr = lr()});
  start_next();
}

// Tells the device what the host knows of this window's step, once a window.
void Window::tell_device() {
  if (std::exchange(planned_, true)) return;
  if (in_flight_.size() == max_windows_in_flight) take_report();
  StepPlan plan{.effective_batch_size = double(options_.effective_batch_size),
                .clip_norm = options_.clip_norm.value_or(std::numeric_limits<double>::infinity()),
                .first_step = taken_,
                .lr = {},
                .scale_growth = options_.loss_scale.growth,
                .scale_backoff = options_.loss_scale.backoff,
                .scale_interval = options_.loss_scale.interval,
                .scale_hysteresis = options_.loss_scale.hysteresis};
  for (size_t i = 0; i < plan.lr.size(); ++i) plan.lr[i] = schedule_.lr(taken_ + int64_t(i));
  plan_step(state_.view(), plan);
}

// step_in_backward: what it steps by must be known before.
void Window::decide_before_backward() {
  if (has_others()) counts_ = add_counts();
  tell_device();
  decide();
  begin_steps();
}

void Window::step_in_backward(const Owner& parameter, const Tensor& gradient) {
  const auto [first, last] = parameter.range();
  const Tensor flat = gradient.reshape({last - first});
  if (has_others()) ranks_->sum(flat.view(), ranks_scratch_.view());
  Optimizer& optimizer = *parameter.member->optimizer;
  const auto [begin, end] = common({first, last}, optimizer.owned());
  if (begin < end)
    optimizer.step({begin, end}, flat.slice(begin - first, end - first).view(), state_.view());
}

// By the loss and what is known of the gradient.
void Window::decide() { decide_step(state_.view(), norm_partials_.view(), options_.noise_scale); }

void Window::begin_steps() {
  for (Member& member : members_) member.optimizer->begin_step(state_.view());
}

Parameters::Range Window::shard(const Member& member) const {
  const int64_t elements = member.parameters().values().numel();
  return ranks_ ? Shards{elements, ranks_->count()}.of(ranks_->rank())
                : Parameters::Range{0, elements};
}

// Into norm_partials_. True if there is any gradient to be stepped by, on any rank.
bool Window::sum_squares(SquaresOf of) {
  bool any = false;
  float beta = 0;
  for (const Member& member : members_)
    for (const Parameters::Range range : stepped_ranges(member)) {
      any = true;
      if (drops_gradients(options_.strategy)) continue;
      const auto [begin, end] = of == SquaresOf::own_shard ? common(range, shard(member)) : range;
      if (begin >= end) continue;
      squared_norm({norm_partials_.view(), beta}, accumulator(member).slice(begin, end).view());
      beta = 1;
    }
  if (beta == 0) norm_partials_.fill(0);
  return any;
}

// Everything between the last gradient and the next window, on the device alone.
void Window::run_step(Part part) {
  const bool begun = options_.strategy == Strategy::step_in_backward;
  if (part != Part::apply) {
    check(sum_squares(SquaresOf::own_shard),
          "step() of a window in which no parameter received a gradient");
    if (has_others()) add_norms();
    if (!begun) decide();
  }
  if (part == Part::decide) return;
  const View state = state_.view();
  if (!begun) begin_steps();
  for (Member& member : members_) {
    const Parameters::Range owned = member.optimizer->owned();
    for (const Parameters::Range reached : stepped_ranges(member))
      if (const auto range = common(reached, owned); range.begin < range.end)
        step_range(member, range);
    if (member.average.defined() && member.average.numel() > 0)
      average_weights(member.average.view(),
                      member.parameters().values().slice(owned.begin, owned.end).view(), state,
                      *options_.ema_decay);
    share_values(member);
    settle(member, state);
  }
}

void Window::settle(Member& member, View state) {
  if (member.buffers_before.defined())
    settle_buffers(member.parameters().buffers().view(), member.buffers_before.view(), state,
                   Settled::step);
  if (member.buffers_kept.defined()) member.buffers_kept.copy_from(member.parameters().buffers());
}

void Window::settle_buffers_with(const Window& other) {
  const MemoryScope scope(Phase::step);
  if (has_others()) add_buffers(other.kept_samples_);
  for (Member& member : members_) settle(member, other.state_.view());
}

void Window::step_range(Member& member, Parameters::Range range) {
  switch (options_.strategy) {
    case Strategy::fused:
    case Strategy::separate:
      member.optimizer->step(range, accumulator(member).slice(range.begin, range.end).view(),
                             state_.view());
      break;
    case Strategy::moments: member.optimizer->step_folded(range, state_.view()); break;
    case Strategy::step_in_backward: break;  // done
  }
}

std::vector<StepReport> Window::reports(Wait wait) {
  const auto known = [&] { return wait == Wait::yes || is_meta(device_) || outcomes_.ready(); };
  while (!in_flight_.empty() && known()) take_report();
  return std::exchange(reports_, {});
}

void Window::take_report() {
  StepReport report = in_flight_.front();
  in_flight_.pop_front();
  StepOutcome outcome{.steps = taken_ + 1};  // all there is to say on a meta device
  if (!is_meta(device_)) outcomes_.pop(&outcome);
  taken_ = outcome.steps;
  report.step = outcome.steps;
  if (!is_meta(device_)) report.lr = outcome.lr;
  // A NaN has a sign, which would be printed.
  const auto unsigned_nan = [](double x) { return std::isnan(x) ? std::nan("") : x; };
  report.loss = unsigned_nan(outcome.loss);
  for (size_t i = 0; i < report.terms.size(); ++i) report.terms[i] = unsigned_nan(outcome.terms[i]);
  report.grad_norm = unsigned_nan(outcome.grad_norm);
  if (!is_meta(device_)) report.noise_scale = outcome.noise_scale;
  report.skipped = outcome.skipped != Skipped::no;
  report.no_weight = outcome.skipped == Skipped::no_weight;
  if (!is_meta(device_)) report.loss_scale = outcome.loss_scale;
  report.overflow = outcome.overflow != 0;
  report.dropped_samples = outcome.dropped_samples;
  report.samples -= outcome.dropped_samples;
  report.weight = is_meta(device_) ? double(report.samples) : outcome.weight;
  check(!report.skipped || options_.strategy != Strategy::moments,
        "the loss of a window after step {} is not finite, and strategy moments has folded its "
        "gradients into the moments, which cannot be undone: check the data, lower the learning "
        "rate, or use another strategy",
        taken_);
  if (drops_gradients(options_.strategy)) report.grad_norm = std::nan("");
  reports_.push_back(report);
}

}  // namespace accrue
