// What ranks that share a window add up: the counts of all ranks, then what their micro-batches
// came to, the gradient or the moments. Then each steps as a process alone does (window_step.cpp).

#include "kernels/step/round_copies.h"
#include "kernels/step/window_state.h"
#include "optim/window.h"

namespace accrue {

void Window::add_other_ranks() {
  const Tensor state = state_on_host();
  kept_samples_ =
      micro_batches_ > 0 ? double(samples_ - window_state(state.view())->dropped_samples) : 0;
  const bool decided = options_.strategy == Strategy::step_in_backward;
  if (!decided) counts_ = add_counts();
  else if (micro_batches_ == 0) step_with_others();
  micro_batches_ = counts_.micro_batches;
  samples_ = counts_.samples;
  expected_samples_ = counts_.expected_samples;
  terms_ = counts_.terms;
  if (!decided) {
    unite_claims();
    if (options_.strategy == Strategy::moments) add_moments();
    else add_gradients();
  }
  add_buffers(kept_samples_);
}

void Window::add_buffers(double weight) {
  for (Member& member : members_)
    if (const Tensor& buffers = member.parameters().buffers(); buffers.numel() > 0)
      ranks_->mean(buffers.view(), weight, ranks_scratch_.view());
}

// The noise scale compares the window with the first micro-batch of the first rank that has one.
Window::Counts Window::add_counts() {
  const Tensor on_host = state_on_host();
  WindowState& state = *window_state(on_host.view());
  const std::vector<Counts> ranks = ranks_->all_of(Counts{
      micro_batches_, samples_, expected_samples_, state.dropped_samples, terms_, state.loss_sum,
      state.outcome.weight, state.first_squares, state.first_weight, state.term_sums});
  Counts all{};
  for (const Counts& rank : ranks) {
    if (rank.micro_batches == 0) continue;  // the rest is of the window before
    if (all.micro_batches == 0) {
      all.expected_samples = rank.expected_samples;
      all.first_squares = rank.first_squares;
      all.first_weight = rank.first_weight;
      all.terms = rank.terms;
    }
    check(
        rank.terms == all.terms,
        "the losses of one rank have {} numbers beside them, those of another {}: expected as many",
        rank.terms, all.terms);
    check(rank.expected_samples == all.expected_samples,
          "one rank expects a window of {} samples, another of {}: expected the same on all",
          all.expected_samples, rank.expected_samples);
    all.micro_batches += rank.micro_batches;
    all.samples += rank.samples;
    all.dropped_samples += rank.dropped_samples;
    all.loss_sum += rank.loss_sum;
    all.weight += rank.weight;
    for (size_t i = 0; i < all.terms; ++i) all.term_sums[i] += rank.term_sums[i];
  }
  check(all.samples <= all.expected_samples,
        "a window of {} samples has {} of all ranks: expected their shares of one window",
        all.expected_samples, all.samples);
  state.dropped_samples = all.dropped_samples;
  state.loss_sum = all.loss_sum;
  state.outcome.weight = all.weight;
  state.first_squares = all.first_squares;
  state.first_weight = all.first_weight;
  state.term_sums = all.term_sums;
  if (device_ == Device::cuda) state_.copy_from(on_host);
  return all;
}

// What the ranks that are in backward have completed: each says its own, and those without a
// micro-batch wait for it.
Window::Completed Window::await_completed(Completed own) {
  Completed completed = Completed::waiting;
  for (const Completed said : ranks_->all_of(own)) {
    if (said == Completed::waiting) continue;
    check(completed == Completed::waiting || said == completed,
          "strategy step-in-backward adds up each gradient over the ranks as it is completed, but "
          "their backward passes complete different ones: expected the same operations on all "
          "ranks, or another strategy");
    completed = said;
  }
  return completed;
}

// step_in_backward, on a rank without a micro-batch: the others' gradients, as they complete them.
void Window::step_with_others() {
  decide_before_backward();
  for (;;) {
    const Completed completed = await_completed(Completed::waiting);
    if (completed == Completed::all || completed == Completed::waiting) return;
    const Owner& parameter = owners_[size_t(completed)];
    const auto [begin, end] = parameter.range();
    const Tensor& values = parameter.member->parameters().values();
    step_in_backward(parameter,
                     Tensor::full({end - begin}, 0, values.dtype(), device_, Category::gradients));
    parameter.claimed() = 1;
    touched_ = true;
  }
}

// A parameter that only other ranks' micro-batches have reached holds the gradient of an earlier
// window here: it becomes 0. Moments take in a gradient of 0 (and l2's share of it, on the first
// rank).
void Window::unite_claims() {
  const Claims own = claims();
  const size_t n = own.size();
  Claims all(n * static_cast<size_t>(ranks_->count())), any = own;
  ranks_->gather(all.data(), own.data(), n);
  for (size_t i = 0; i < all.size(); ++i) any[i % n] |= all[i];
  auto was = own.begin();
  auto is = any.begin();
  for (Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries()) {
      if (*is++ <= *was++) continue;
      if (options_.strategy == Strategy::moments)
        fold({&member, member.number(entry)}, entry.tensor.view(), 0);  // 0 times anything
      else accumulator(member).slice(entry.range().begin, entry.range().end).fill(0);
    }
  set_claims(any);
}

// Each of the trained gradients in one sum, whichever of them this window's micro-batches reach,
// because the ranks begin before they know.
bool Window::adds_gradually() const {
  return has_others() && options_.overlap == Overlap::on && ranks_->reaches(device_) &&
         members_.size() == 1 && members_.front().optimizer->owns_all();
}

GradualSum Window::gradual_sum() const {
  const Parameters& parameters = members_.front().parameters();
  return {*ranks_, parameters.gradients().view(),
          parameters.ranges([](const Parameters::Entry& entry) { return !entry.frozen(); }),
          ranks_scratch_.view()};
}

void Window::add_gradients() {
  if (adds_gradually()) {
    if (!gradient_sum_) gradient_sum_.emplace(gradual_sum());
    return gradient_sum_->finish();
  }
  for (const Member& member : members_)
    if (!member.optimizer->owns_all())
      ranks_->sum_own_shard(accumulator(member).view(), ranks_scratch_.view());
    else
      for (const auto [begin, end] : stepped_ranges(member))
        ranks_->sum(accumulator(member).slice(begin, end).view(), ranks_scratch_.view());
}

void Window::add_moments() {
  touched_ = true;
  for (const Member& member : members_)
    for (const auto& [name, moment] : member.optimizer->state())
      for (const auto [begin, end] : stepped_ranges(member))
        ranks_->sum(moment.slice(begin, end).view(), ranks_scratch_.view());
}

// Each rank's squares are of its shard, whoever steps what.
void Window::add_norms() { ranks_->sum(norm_partials_.view(), ranks_scratch_.view()); }

Tensor Window::state_on_host() const {
  return device_ == Device::cuda ? state_.to(Device::cpu, Category::workspace) : state_;
}

// After a rank has changed its own shard of them alone.
void Window::share_values(const Member& member) {
  if (member.optimizer->owns_all() || is_meta(device_)) return;
  ranks_->share_shards(member.parameters().values().view(), ranks_scratch_.view());
  round_copies(member.parameters());
}

}  // namespace accrue
