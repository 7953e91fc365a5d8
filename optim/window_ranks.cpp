// The end of a window that several ranks share: each rank gets the counts, then the gradient, of
// all ranks. Then each steps as a process alone does (window_step.cpp).

#include "kernels/step/round_copies.h"
#include "kernels/step/window_state.h"
#include "optim/window.h"

namespace accrue {
namespace {

// The counts of a rank in a window.
struct Counted {
  int64_t micro_batches, samples, first_samples, dropped_samples;
  size_t terms;
  double loss_sum, first_squares;
  std::array<double, max_loss_terms> term_sums;
};

}  // namespace

void Window::add_other_ranks() {
  const WindowState& state = *window_state(state_.view());
  kept_samples_ = micro_batches_ > 0 ? double(samples_ - state.dropped_samples) : 0;
  add_counts();
  unite_claims();
  add_gradients();
  add_buffers(kept_samples_);
}

void Window::add_buffers(double weight) {
  for (Member& member : members_)
    if (const Tensor& buffers = member.parameters().buffers(); buffers.numel() > 0)
      ranks_->mean(buffers.view(), weight, ranks_scratch_.view());
}

// The noise scale compares the window with the first micro-batch of the first rank that has one.
void Window::add_counts() {
  WindowState& state = *window_state(state_.view());
  const std::vector<Counted> ranks =
      ranks_->all_of(Counted{micro_batches_, samples_, first_samples_, state.dropped_samples,
                             terms_, state.loss_sum, state.first_squares, state.term_sums});
  Counted all{};
  for (const Counted& rank : ranks) {
    if (rank.micro_batches == 0) continue;  // the rest is of the window before
    if (all.micro_batches == 0) {
      all.first_samples = rank.first_samples;
      all.first_squares = rank.first_squares;
      all.terms = rank.terms;
    }
    check(
        rank.terms == all.terms,
        "the losses of one rank have {} numbers beside them, those of another {}: expected as many",
        rank.terms, all.terms);
    all.micro_batches += rank.micro_batches;
    all.samples += rank.samples;
    all.dropped_samples += rank.dropped_samples;
    all.loss_sum += rank.loss_sum;
    for (size_t i = 0; i < all.terms; ++i) all.term_sums[i] += rank.term_sums[i];
  }
  check(all.samples <= expected_samples_,
        "a window of {} samples has {} of all ranks: expected their shares of one window",
        expected_samples_, all.samples);
  micro_batches_ = all.micro_batches;
  samples_ = all.samples;
  first_samples_ = all.first_samples;
  terms_ = all.terms;
  state.dropped_samples = all.dropped_samples;
  state.loss_sum = all.loss_sum;
  state.first_squares = all.first_squares;
  state.term_sums = all.term_sums;
}

// A parameter that only other ranks' micro-batches have reached holds the gradient of an earlier
// window here: it becomes 0.
void Window::unite_claims() {
  const Claims own = claims();
  const size_t n = own.size();
  Claims all(n * static_cast<size_t>(ranks_->count())), any = own;
  ranks_->gather(all.data(), own.data(), n);
  for (size_t i = 0; i < all.size(); ++i) any[i % n] |= all[i];
  auto was = own.begin();
  auto is = any.begin();
  for (const Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries())
      if (*is++ > *was++) accumulator(member).slice(entry.range().begin, entry.range().end).fill(0);
  set_claims(any);
}

void Window::add_gradients() {
  for (const Member& member : members_)
    if (!member.optimizer->owns_all())
      ranks_->sum_own_shard(accumulator(member).view(), ranks_scratch_.view());
    else
      for (const auto [begin, end] : stepped_ranges(member))
        ranks_->sum(accumulator(member).slice(begin, end).view(), ranks_scratch_.view());
}

// Each rank's squares are of its shard, whoever steps what.
void Window::add_norms() {
  double sum = 0;
  for (const double part : norm_partials_.span<double>()) sum += part;
  ranks_->add_up({&sum, 1});
  norm_partials_.fill(0);
  norm_partials_.span<double>()[0] = sum;
}

// After a rank has changed its own shard of them alone.
void Window::share_values(const Member& member) {
  if (member.optimizer->owns_all() || is_meta(device_)) return;
  ranks_->share_shards(member.parameters().values().view(), ranks_scratch_.view());
  round_copies(member.parameters());
}

}  // namespace accrue
