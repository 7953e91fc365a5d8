#include "optim/window.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/accumulate.h"
#include "kernels/window_state.h"

namespace accrue {
namespace {

Device device_of(const std::vector<Optimizer*>& optimizers) {
  check(!optimizers.empty(), "a window needs an optimizer");
  const Device device = optimizers.front()->parameters().values().device();
  for (const Optimizer* optimizer : optimizers) {
    const Device other = optimizer->parameters().values().device();
    check(other == device, "the optimizers of a window are on {} and {}: expected one device",
          name(device), name(other));
  }
  return device;
}

}  // namespace

Window::Window(std::vector<Optimizer*> optimizers, Schedule schedule, WindowOptions options)
    : schedule_(std::move(schedule)),
      options_(options),
      device_(device_of(optimizers)),
      state_(make_window_state(device_)),
      norm_partials_(Tensor::empty({norm_partials}, DType::f64, device_, Category::workspace)),
      micro_steps_(device_, options.graphs),
      whole_steps_(device_, options.graphs),
      outcomes_(device_, sizeof(StepOutcome), max_windows_in_flight) {
  check(options.effective_batch_size > 0, "effective batch size {}: expected 1 or more",
        options.effective_batch_size);
  check(!options.clip_norm || *options.clip_norm > 0, "clip norm {}: expected more than 0",
        options.clip_norm.value_or(0));
  check(options.loss_scale > 0 && std::isfinite(options.loss_scale),
        "loss scale {}: expected more than 0", options.loss_scale);
  for (Optimizer* optimizer : optimizers) {
    Parameters& parameters = optimizer->parameters();
    Member member{optimizer, {}, {}, {}};
    const Tensor& gradients = parameters.gradients();
    if (options.strategy == Strategy::separate)
      member.sum = Tensor::full(gradients.shape(), 0, gradients.dtype(), gradients.device(),
                                Category::gradients);
    member.claimed.resize(parameters.entries().size());
    const Tensor& buffers = parameters.buffers();
    if (buffers.numel() > 0)
      member.buffers_before =
          Tensor::empty(buffers.shape(), buffers.dtype(), buffers.device(), Category::parameters);
    members_.push_back(std::move(member));
  }
  remember_buffers();
  start_next();
}

void Window::backward(const Tensor& loss, int64_t samples) {
  check(samples > 0, "a micro-batch of {} samples: expected 1 or more", samples);
  check(samples_ + samples <= options_.effective_batch_size,
        "a window of {} samples already has {}: {} more do not fit; step() first",
        options_.effective_batch_size, samples_, samples);
  const double share = double(samples) / double(options_.effective_batch_size);
  if (options_.strategy == Strategy::fused) {
    accrue::backward(loss, options_.loss_scale * share);
  } else {
    for (Member& member : members_) member.optimizer->parameters().zero_grad();
    accrue::backward(loss, options_.loss_scale);
    for (Member& member : members_) accumulate_separately(member, share);
  }
  add_loss(state_.view(), loss.view(), samples, micro_batches_ == 0 ? 0.0f : 1.0f);
  count(samples);
}

void Window::count(int64_t samples) {
  samples_ += samples;
  ++micro_batches_;
}

void Window::micro_step(int64_t samples, int64_t variant, const std::function<void()>& work) {
  const MicroStep key{variant, samples, micro_batches_ == 0};
  micro_steps_.forget_if([&](const MicroStep& other) { return other.variant < variant; });
  if (micro_steps_.run(key, work)) {
    claims_after_[key] = claims();
  } else {
    count(samples);
    set_claims(claims_after_.at(key));
  }
}

// The textbook loop: zero the sum at the window's start, then sum += n_i/N * g.
void Window::accumulate_separately(Member& member, double share) {
  if (micro_batches_ == 0) member.sum.fill(0);
  const Parameters& parameters = member.optimizer->parameters();
  const auto reached = [](const Parameters::Entry& entry) { return entry.claimed(); };
  for (const auto [begin, end] : parameters.ranges(reached))
    accumulate(member.sum.slice(begin, end).view(), parameters.gradients().slice(begin, end).view(),
               share);
  for (size_t i = 0; i < member.claimed.size(); ++i)
    member.claimed[i] |= parameters.entries()[i].claimed();
}

std::vector<Parameters::Range> Window::claimed_ranges(const Member& member) const {
  const Parameters& parameters = member.optimizer->parameters();
  return parameters.ranges([&](const Parameters::Entry& entry) {
    const auto i = static_cast<size_t>(&entry - parameters.entries().data());
    return !entry.frozen() && (member.sum.defined() ? member.claimed[i] != 0 : entry.claimed());
  });
}

Window::Claims Window::claims() const {
  Claims result;
  for (const Member& member : members_)
    for (const Parameters::Entry& entry : member.optimizer->parameters().entries()) {
      const auto i = static_cast<size_t>(&entry - member.optimizer->parameters().entries().data());
      result.push_back(member.sum.defined() ? member.claimed[i] != 0 : entry.claimed());
    }
  return result;
}

void Window::set_claims(const Claims& claims) {
  auto claim = claims.begin();
  for (Member& member : members_)
    for (const Parameters::Entry& entry : member.optimizer->parameters().entries()) {
      const auto i = static_cast<size_t>(&entry - member.optimizer->parameters().entries().data());
      entry.tensor.variable()->fresh = *claim == 0;
      member.claimed[i] = *claim++;
    }
}

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
  check(samples_ > 0, "step() of a window without micro-batches");
  if (in_flight_.size() == max_windows_in_flight) take_report();
  StepPlan plan{.effective_batch_size = double(options_.effective_batch_size),
                .samples = double(samples_),
                .loss_scale = options_.loss_scale,
                .clip_norm = options_.clip_norm.value_or(std::numeric_limits<double>::infinity()),
                .first_step = taken_};
  for (size_t i = 0; i < plan.lr.size(); ++i) plan.lr[i] = schedule_.lr(taken_ + int64_t(i));
  plan_step(state_.view(), plan);
  whole_steps_.run(claims(), [this] { run_step(); });
  if (!is_meta(device_)) outcomes_.push(&window_state(state_.view())->outcome);
  in_flight_.push_back({.micro_batches = micro_batches_, .samples = samples_, .lr = lr()});
  start_next();
}

// Everything between the last gradient and the next window, on the device alone.
void Window::run_step() {
  const View state = state_.view(), partials = norm_partials_.view();
  float beta = 0;
  for (const Member& member : members_)
    for (const auto [begin, end] : claimed_ranges(member)) {
      squared_norm({partials, beta}, member.accumulator().slice(begin, end).view());
      beta = 1;
    }
  check(beta == 1, "step() of a window in which no parameter received a gradient");
  decide_step(state, partials);
  for (Member& member : members_) {
    member.optimizer->step(member.accumulator(), claimed_ranges(member), state);
    if (member.buffers_before.defined())
      settle_buffers(member.optimizer->parameters().buffers().view(), member.buffers_before.view(),
                     state);
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
  report.loss = outcome.loss;
  report.grad_norm = outcome.grad_norm;
  report.skipped = outcome.skipped != 0;
  reports_.push_back(report);
}

void Window::abandon() {
  for (Member& member : members_)
    if (member.buffers_before.defined())
      member.optimizer->parameters().buffers().copy_from(member.buffers_before);
  start_next();
}

void Window::remember_buffers() {
  for (Member& member : members_)
    if (member.buffers_before.defined())
      member.buffers_before.copy_from(member.optimizer->parameters().buffers());
}

void Window::start_next() {
  for (Member& member : members_) {
    member.optimizer->parameters().zero_grad();
    std::ranges::fill(member.claimed, 0);
  }
  micro_batches_ = samples_ = 0;
}

}  // namespace accrue
