#include "accumulate/exchange.h"

#include <array>
#include <optional>

#include "core/inside.h"
#include "kernels/step/round_copies.h"

namespace accrue {
namespace {

// On a meta device it takes up memory but exchanges nothing.
class BetweenRanks : public Exchange {
 public:
  BetweenRanks(Accumulator& accumulator, const StepDecision& decision, const WindowOptions& options)
      : Exchange(accumulator.parameters()),
        accumulator_(accumulator),
        decision_(decision),
        options_(options),
        ranks_(*options.ranks),
        device_(decision.state.device()) {
    const MemoryScope scope("exchange between ranks");
    const Device place = ranks_.scratch_device(device_);
    const size_t bytes = ranks_.scratch_bytes(place, parameters().values().bytes());
    scratch_ = Tensor::empty({int64_t(bytes)}, DType::u8, place, Category::workspace);
    if (ranks_.rank() > 0) accumulator_.leave_history_to_another();
    if (accumulator_.steps_in_backward() && has_others())
      accumulator_.on_complete([this](size_t parameter, const Tensor& gradient) {
        await_completed(Completed(parameter));
        ranks_.sum(gradient.view(), scratch_.view());
      });
  }

  bool has_others() const override { return !is_meta(device_); }
  bool records_micro_step(bool is_last) const override {
    return !accumulator_.steps_in_backward() && !(is_last && adds_gradually());
  }
  bool records_step() const override { return false; }

  void begin_backward(bool is_last) override;
  void end_backward() override {
    if (accumulator_.steps_in_backward() && has_others()) await_completed(Completed::all);
  }
  void join_backward() override;

  WindowCounts add_counts(const WindowCounts& own) override;
  void add_gradients() override;
  void add_norms() override {
    if (has_others()) ranks_.sum(decision_.partials.view(), scratch_.view());
  }
  Parameters::Range shard() const override {
    return Shards{parameters().values().numel(), ranks_.count()}.of(ranks_.rank());
  }
  void share_values() override {
    if (owns_all() || !has_others()) return;
    ranks_.share_shards(parameters().values().view(), scratch_.view());
    round_copies(parameters());
  }
  double kept_samples(const WindowCounts& own) const override {
    if (own.micro_batches == 0 || !has_others()) return 0;
    return double(own.samples - window_state(state_on_host().view())->dropped_samples);
  }
  void mean_buffers(double weight) override {
    const Tensor& buffers = parameters().buffers();
    if (buffers.numel() > 0 && has_others()) ranks_.mean(buffers.view(), weight, scratch_.view());
  }

  bool is_under_way() const override { return gradual_.has_value(); }
  void start_next() override { gradual_.reset(); }

 private:
  // A rank's message in backward: the number of a parameter whose gradient is complete, or one of
  // the values below.
  enum class Completed : int64_t { all = -1, waiting = -2 };
  // The counts of a window that ranks send to each other.
  struct Counts {
    WindowCounts window;
    int64_t dropped_samples;
    double loss_sum, weight, first_squares, first_weight;
    std::array<double, max_loss_terms> term_sums;
  };

  const Parameters& parameters() const { return accumulator_.parameters(); }
  bool owns_all() const { return accumulator_.optimizer().owns_all(); }
  bool adds_gradually() const {
    return has_others() && options_.overlap == Overlap::on && ranks_.reaches(device_) && owns_all();
  }
  void add_gradually();
  void unite_reached();
  Completed await_completed(Completed own);
  // The WindowState; if it is on cuda, a copy on the cpu.
  Tensor state_on_host() const {
    return device_ == Device::cuda ? decision_.state.to(Device::cpu, Category::workspace)
                                   : decision_.state;
  }

  Accumulator& accumulator_;
  const StepDecision& decision_;
  const WindowOptions options_;
  Ranks& ranks_;
  const Device device_;
  Tensor scratch_;
  // The sum of the gradients over ranks, once this rank's last backward has begun.
  std::optional<GradualSum> gradual_;
};

void BetweenRanks::begin_backward(bool is_last) {
  check(!gradual_,
        "a micro-batch after the one that expect_last() announced: expected step() after that");
  if (accumulator_.steps_in_backward()) return;
  accumulator_.on_complete({});
  if (is_last && adds_gradually()) add_gradually();
}

// Adds up all trained gradients in one sum, whichever parameters this window reaches, because the
// ranks begin before they know. This rank's part of the sum is complete from the first parameter on
// after which all gradients in the arena are complete, that is, contain all its micro-batches.
void BetweenRanks::add_gradually() {
  gradual_.emplace(
      ranks_, accumulator_.sum().view(),
      parameters().ranges([](const Parameters::Entry& entry) { return !entry.frozen(); }),
      scratch_.view());
  std::vector<char> complete;
  for (const Parameters::Entry& entry : parameters().entries()) complete.push_back(entry.frozen());
  accumulator_.on_complete(
      [this, complete = std::move(complete), n = parameters().entries().size()](
          size_t parameter, const Tensor&) mutable {
        complete[parameter] = 1;
        while (n > 0 && complete[n - 1]) --n;
        if (n < complete.size()) gradual_->complete_from(accumulator_.entry(n).offset);
      });
}

// Each rank says which gradient it has completed; ranks without a micro-batch wait for that.
BetweenRanks::Completed BetweenRanks::await_completed(Completed own) {
  Completed completed = Completed::waiting;
  for (const Completed said : ranks_.all_of(own)) {
    if (said == Completed::waiting) continue;
    check(completed == Completed::waiting || said == completed,
          "strategy step-in-backward adds up each gradient over the ranks as it is completed, but "
          "their backward passes complete different ones: expected the same operations on all "
          "ranks, or another strategy");
    completed = said;
  }
  return completed;
}

void BetweenRanks::join_backward() {
  for (;;) {
    const Completed completed = await_completed(Completed::waiting);
    if (completed == Completed::all || completed == Completed::waiting) return;
    const auto parameter = size_t(completed);
    const auto [begin, end] = accumulator_.entry(parameter).range();
    const Tensor nothing =
        Tensor::full({end - begin}, 0, parameters().values().dtype(), device_, Category::gradients);
    ranks_.sum(nothing.view(), scratch_.view());
    accumulator_.step_parameter(parameter, nothing);
  }
}

// Estimating the noise scale compares the window with the first micro-batch of the first rank that
// has one. In a plan, the other ranks are assumed to have the samples that this rank lacks.
WindowCounts BetweenRanks::add_counts(const WindowCounts& own) {
  if (!has_others()) {
    WindowCounts all = own;
    all.samples = own.expected_samples;
    return all;
  }
  const Tensor on_host = state_on_host();
  WindowState& state = *window_state(on_host.view());
  const std::vector<Counts> ranks =
      ranks_.all_of(Counts{own, state.dropped_samples, state.loss_sum, state.outcome.weight,
                           state.first_squares, state.first_weight, state.term_sums});
  Counts all{};
  for (const Counts& rank : ranks) {
    if (rank.window.micro_batches == 0) continue;  // its other counts are from the previous window
    if (all.window.micro_batches == 0) {
      all.window.expected_samples = rank.window.expected_samples;
      all.window.terms = rank.window.terms;
      all.first_squares = rank.first_squares;
      all.first_weight = rank.first_weight;
    }
    check(rank.window.terms == all.window.terms,
          "the losses of one rank have {} numbers beside them, the losses of another {}: expected "
          "as many",
          rank.window.terms, all.window.terms);
    check(rank.window.expected_samples == all.window.expected_samples,
          "one rank expects a window of {} samples, another of {}: expected the same on all",
          all.window.expected_samples, rank.window.expected_samples);
    all.window.micro_batches += rank.window.micro_batches;
    all.window.samples += rank.window.samples;
    all.dropped_samples += rank.dropped_samples;
    all.loss_sum += rank.loss_sum;
    all.weight += rank.weight;
    for (size_t i = 0; i < all.window.terms; ++i) all.term_sums[i] += rank.term_sums[i];
  }
  check(all.window.samples <= all.window.expected_samples,
        "a window of {} samples has {} of all ranks: expected their shares of one window",
        all.window.expected_samples, all.window.samples);
  state.dropped_samples = all.dropped_samples;
  state.loss_sum = all.loss_sum;
  state.outcome.weight = all.weight;
  state.first_squares = all.first_squares;
  state.first_weight = all.first_weight;
  state.term_sums = all.term_sums;
  if (device_ == Device::cuda) decision_.state.copy_from(on_host);
  return all.window;
}

// If only other ranks' micro-batches have reached a parameter, its sum here is left over from an
// earlier window: this makes it a sum over no micro-batches.
void BetweenRanks::unite_reached() {
  Accumulator::Progress progress = accumulator_.progress();
  const std::vector<char> own = progress.reached;
  const size_t n = own.size();
  std::vector<char> all(n * static_cast<size_t>(ranks_.count()));
  ranks_.gather(all.data(), own.data(), n);
  for (size_t i = 0; i < all.size(); ++i) progress.reached[i % n] |= all[i];
  for (size_t i = 0; i < n; ++i)
    if (progress.reached[i] > own[i]) accumulator_.add_nothing(i);
  progress.touched |= accumulator_.progress().touched;
  accumulator_.set_progress(progress);
}

void BetweenRanks::add_gradients() {
  if (!has_others()) return;
  unite_reached();
  if (adds_gradually()) {
    if (!gradual_) add_gradually();
    return gradual_->finish();
  }
  for (const Tensor& sum : accumulator_.sums())
    if (owns_all())
      for (const auto [begin, end] : accumulator_.ranges())
        ranks_.sum(sum.slice(begin, end).view(), scratch_.view());
    else ranks_.sum_own_shard(sum.view(), scratch_.view());
}

}  // namespace

void Exchange::check_was_not(bool under_way) {
  check(!under_way,
        "a window whose gradients other ranks have added up already cannot be abandoned: leave out "
        "expect_last()");
}

std::unique_ptr<Exchange> detail::make_exchange(Accumulator& accumulator,
                                                const StepDecision& decision,
                                                const WindowOptions& options) {
  std::unique_ptr<Exchange> exchange;
  if (options.ranks && options.ranks->count() > 1)
    exchange = std::make_unique<BetweenRanks>(accumulator, decision, options);
  else exchange = std::make_unique<Exchange>(accumulator.parameters());
  const Optimizer& optimizer = accumulator.optimizer();
  const auto [begin, end] = exchange->shard();
  const auto [owned_begin, owned_end] = optimizer.owned();
  check(is_meta(decision.state.device()) || optimizer.owns_all() ||
            (begin == owned_begin && end == owned_end),
        "an optimizer owns the elements {} to {} of the parameters: expected all, or this rank's "
        "shard, {} to {}",
        owned_begin, owned_end, begin, end);
  return exchange;
}

}  // namespace accrue
