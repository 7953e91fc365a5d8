#include "optim/window.h"

#include <algorithm>
#include <cmath>

#include "kernels/accumulate.h"

namespace accrue {

Window::Window(std::vector<Optimizer*> optimizers, Schedule schedule, WindowOptions options)
    : schedule_(std::move(schedule)), options_(options) {
  check(!optimizers.empty(), "a window needs an optimizer");
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
  if (loss.device() != Device::meta) loss_sum_ += loss.item() * double(samples);
  samples_ += samples;
  ++micro_batches_;
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

// L2 norm of what was accumulated, over all members; NaN if any element is not finite.
double Window::accumulated_norm() const {
  double sum_of_squares = 0;
  for (const Member& member : members_)
    for (const auto [begin, end] : claimed_ranges(member)) {
      const GradientNorm norm = gradient_norm(member.accumulator().slice(begin, end).view());
      if (!norm.finite) return std::numeric_limits<double>::quiet_NaN();
      sum_of_squares += norm.sum_of_squares;
    }
  return std::sqrt(sum_of_squares);
}

StepReport Window::step() {
  check(samples_ > 0, "step() of a window without micro-batches");
  const double unscale =
      double(options_.effective_batch_size) / double(samples_) / options_.loss_scale;
  StepReport report{.step = steps_,
                    .micro_batches = micro_batches_,
                    .samples = samples_,
                    .loss = loss_sum_ / double(samples_),
                    .grad_norm = accumulated_norm() * unscale,
                    .lr = lr()};
  report.skipped = !std::isfinite(report.grad_norm) || !std::isfinite(report.loss);
  if (report.skipped) {
    abandon();
    return report;
  }
  double scale = unscale;
  if (options_.clip_norm && report.grad_norm > *options_.clip_norm)
    scale *= *options_.clip_norm / report.grad_norm;
  for (Member& member : members_)
    member.optimizer->step(member.accumulator(), claimed_ranges(member), report.lr, scale);
  report.step = ++steps_;
  remember_buffers();
  start_next();
  return report;
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
  loss_sum_ = 0;
}

}  // namespace accrue
