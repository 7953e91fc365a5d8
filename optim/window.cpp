#include "optim/window.h"

#include <algorithm>
#include <cmath>

#include "kernels/accumulate.h"
#include "kernels/step/average_weights.h"
#include "kernels/step/round_copies.h"
#include "kernels/step/window_state.h"

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
      state_(make_window_state(device_, options.loss_scale.initial)),
      norm_partials_(Tensor::empty({norm_partials}, DType::f64, device_, Category::workspace)),
      ranks_(options.ranks && options.ranks->count() > 1 ? options.ranks : nullptr),
      // What ranks exchange is not recorded: the host takes part in it.
      micro_steps_(device_, ranks_ && options.strategy == Strategy::step_in_backward
                                ? Graphs::off
                                : options.graphs),
      steps_(device_, ranks_ ? Graphs::off : options.graphs),
      outcomes_(device_, sizeof(StepOutcome), max_windows_in_flight) {
  check_options(options);
  if (ranks_) {
    const MemoryScope scope("exchange between ranks");
    const Device place = ranks_->scratch_device(device_);
    size_t bytes = 0;
    for (const Optimizer* optimizer : optimizers)
      bytes = std::max(bytes, optimizer->parameters().values().bytes());
    ranks_scratch_ = Tensor::empty({int64_t(ranks_->scratch_bytes(place, bytes))}, DType::u8, place,
                                   Category::workspace);
  }
  for (Optimizer* optimizer : optimizers) {
    const Parameters& parameters = optimizer->parameters();
    Member member{optimizer, {}, {}, {}, {}, std::vector<char>(parameters.entries().size())};
    const Tensor& gradients = parameters.gradients();
    const MemoryScope scope("window");
    if (options.strategy == Strategy::separate && gradients.defined())
      member.sum = Tensor::full(gradients.shape(), 0, gradients.dtype(), gradients.device(),
                                Category::gradients);
    if (options.ema_decay) {
      const MemoryScope named("average of the weights");
      const Tensor& values = parameters.values();
      const auto [begin, end] = optimizer->owned();
      member.average =
          Tensor::full({end - begin}, 0, values.dtype(), values.device(), Category::optimizer);
    }
    const Tensor& buffers = parameters.buffers();
    const auto like_buffers = [&] {
      return Tensor::empty(buffers.shape(), buffers.dtype(), buffers.device(),
                           Category::parameters);
    };
    if (buffers.numel() > 0) {
      member.buffers_before = like_buffers();
      if (options.on_overflow == OnOverflow::drop_micro_batch) member.buffers_kept = like_buffers();
    }
    members_.push_back(std::move(member));
  }
  check_members();
  if (drops_gradients(options.strategy)) norm_partials_.fill(0);
  for (Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries()) {
      numbers_[entry.tensor.variable().get()] = owners_.size();
      owners_.push_back({&member, member.number(entry)});
    }
  remember_buffers();
  start_next();
}

void Window::check_members() const {
  const bool drops = drops_gradients(options_.strategy);
  for (const Member& member : members_) {
    check(drops != member.parameters().gradients().defined(),
          "the parameters' gradients are {}: expected gradient_storage(strategy)",
          drops ? "in an arena" : "on demand");
    check(options_.strategy != Strategy::moments || member.optimizer->folds(),
          "strategy moments folds gradients into Adam's moments: expected adam or adamw");
    check(options_.strategy != Strategy::moments || member.optimizer->owns_all(),
          "strategy moments folds gradients into Adam's moments, of which an optimizer that owns a "
          "shard has too few: expected one that owns all, or another strategy");
    if (is_meta(device_) || member.optimizer->owns_all()) continue;
    const auto [begin, end] = shard(member);
    const auto [owned_begin, owned_end] = member.optimizer->owned();
    check(begin == owned_begin && end == owned_end,
          "an optimizer owns the elements {} to {} of the parameters: expected all, or this rank's "
          "shard, {} to {}",
          owned_begin, owned_end, begin, end);
  }
}

bool Window::has_gradient(const Member& member, const Parameters::Entry& entry) const {
  return options_.strategy == Strategy::fused ? entry.claimed()
                                              : member.claimed[member.number(entry)] != 0;
}

void Window::expect(int64_t samples) {
  check(micro_batches_ == 0 && samples > 0 && samples <= options_.effective_batch_size,
        "expect({}) after {} micro-batches: expected 1 to {} samples before the first", samples,
        micro_batches_, options_.effective_batch_size);
  expected_samples_ = samples;
}

void Window::backward(const Loss& all, const Weight& counts) {
  const Tensor& loss = all.value;
  const int64_t samples = counts.samples;
  const Tensor& counted = counts.on_device;
  check(samples > 0, "a micro-batch of {} samples: expected 1 or more", samples);
  check(counted.defined()
            ? counted.numel() == 1 && counted.dtype() == DType::f64 && counted.device() == device_
            : counts.counted >= 0 && std::isfinite(counts.counted),
        "a micro-batch counts {}: expected a number that is not negative, or an f64 scalar on {}",
        counted.defined() ? fmt::format("{} {} on {}", name(counted.dtype()), counted.shape(),
                                        name(counted.device()))
                          : fmt::format("{}", counts.counted),
        name(device_));
  check(
      options_.strategy != Strategy::moments ||
          (!counted.defined() && counts.counted == double(samples)),
      "strategy moments folds each gradient as its share of the window, which is known beforehand "
      "for losses that are means over samples alone, not over some of their pixels: expected "
      "another strategy");
  check(samples_ + samples <= expected_samples_,
        "a window of {} samples already has {}: {} more do not fit; step() first",
        expected_samples_, samples_, samples);
  check(!gradient_sum_,
        "a micro-batch after the one that expect_last() announced: expected step() after that");
  const MemoryScope scope(Phase::backward);
  const bool dropping = options_.on_overflow == OnOverflow::drop_micro_batch;
  // judge() adds the loss of a micro-batch that may be dropped.
  const LossSum sum = dropping ? LossSum::leave : LossSum::add;
  const LossWeight weight{counts.counted, counted.defined() ? counted.view() : View{}};
  if (!dropping) add_terms(all, weight);
  switch (options_.strategy) {
    case Strategy::fused: differentiate(loss, weight, sum, exchanging_hook()); break;
    case Strategy::separate:
      for (Member& member : members_) member.parameters().zero_grad();
      differentiate(loss, weight, sum);
      if (dropping) {
        judge(loss, weight, samples);
        add_terms(all, weight);
      }
      for (Member& member : members_) accumulate_separately(member);
      break;
    case Strategy::moments: differentiate(loss, weight, sum, dropping_hook()); break;
    case Strategy::step_in_backward:
      check(micro_batches_ == 0,
            "strategy step-in-backward steps during the backward of a window's only micro-batch: "
            "expected 1 micro-batch, or another strategy");
      add_loss(state_.view(), loss.view(), weight, 0);  // what the step is decided by
      count(samples);
      decide_before_backward();
      differentiate(loss, weight, LossSum::leave, dropping_hook());
      if (has_others()) await_completed(Completed::all);
      return;
  }
  if (options_.noise_scale == NoiseScale::estimate && micro_batches_ == 0) {
    sum_squares(SquaresOf::own_gradient);
    take_first_norm(state_.view(), norm_partials_.view());
  }
  count(samples);
}

void Window::add_terms(const Loss& loss, const LossWeight& weight) {
  check(micro_batches_ == 0 || loss.terms.size() == terms_,
        "a loss has {} numbers beside it, those before it in its window {}: expected as many",
        loss.terms.size(), terms_);
  terms_ = loss.terms.size();
  if (terms_ == 0) return;
  std::vector<View> views;
  for (const Tensor& term : loss.terms) {
    check(term.numel() == 1 && term.device() == device_,
          "a number beside a loss is {} on {}: expected a scalar on {}", term.shape(),
          name(term.device()), name(device_));
    views.push_back(term.view());
  }
  accrue::add_terms(state_.view(), views, weight, micro_batches_ == 0 ? 0.0f : 1.0f,
                    options_.on_overflow == OnOverflow::drop_micro_batch ? OfDropped::left_out
                                                                         : OfDropped::counted);
}

void Window::follow_loss(const Tensor& y, const StepFunction& f) const {
  accrue::follow_loss(y.view(), state_.view(), f);
}

void Window::count(int64_t samples) {
  samples_ += samples;
  ++micro_batches_;
  touched_ = drops_gradients(options_.strategy);
}

void Window::micro_step(int64_t samples, int64_t variant, const std::function<void()>& work) {
  const int64_t window_size = options_.strategy == Strategy::moments ? expected_samples_ : 0;
  const MicroStep key{variant, samples, micro_batches_ == 0, window_size};
  const auto stale = [&](const MicroStep& other) { return other.variant < variant; };
  micro_steps_.forget_if(stale);
  std::erase_if(claims_after_, [&](const auto& known) { return stale(known.first); });
  if (options_.strategy == Strategy::step_in_backward && !ranks_) tell_device();
  const int64_t before = micro_batches_, samples_before = samples_;
  const bool touched_before = touched_;
  // It is called twice if CUDA refuses to record it.
  std::optional<Claims> claims_before;
  const auto work_from_start = [&] {
    if (claims_before) {
      micro_batches_ = before;
      samples_ = samples_before;
      touched_ = touched_before;
      for (const Member& member : members_) member.parameters().zero_grad();
      set_claims(*claims_before);
    } else if (micro_steps_.records()) {
      claims_before = claims();
    }
    work();
  };
  // What its hook enqueues is not recorded.
  const auto replay = last_is_next_ && adds_gradually() ? Replay::no : Replay::yes;
  if (micro_steps_.run(key, work_from_start, replay)) {
    check(micro_batches_ == before + 1,
          "a micro-step called backward() {} times: expected once, with its losses added up",
          micro_batches_ - before);
    if (micro_steps_.records()) claims_after_[key] = claims();
  } else {
    count(samples);
    set_claims(claims_after_.at(key));
  }
}

void Window::differentiate(const Tensor& loss, const LossWeight& weight, LossSum sum,
                           const GradHook& hook) {
  const View state = state_.view();
  const float beta = micro_batches_ == 0 ? 0 : 1;
  const auto of = double(options_.strategy == Strategy::moments ? expected_samples_
                                                                : options_.effective_batch_size);
  if (takes_seed(loss)) {
    accrue::backward(loss,
                     sum == LossSum::add ? loss_seed(state, weight, of, loss.view(), beta)
                                         : loss_seed(state, weight, of),
                     hook);
    return;
  }
  if (sum == LossSum::add) add_loss(state, loss.view(), weight, beta);
  const MemoryScope scope("loss");
  Tensor seed = Tensor::empty(loss.shape(), loss.dtype(), loss.device());
  seed_gradient(seed.view(), state, weight, of);
  accrue::backward(loss, std::move(seed), hook);
}

// Decides if the micro-batch whose gradient has just been computed is to count.
void Window::judge(const Tensor& loss, const LossWeight& weight, int64_t samples) {
  float beta = 0;
  for (const Member& member : members_)
    for (const auto [begin, end] : member.parameters().ranges(
             [](const Parameters::Entry& entry) { return entry.claimed(); })) {
      squared_norm({norm_partials_.view(), beta},
                   member.parameters().gradients().slice(begin, end).view());
      beta = 1;
    }
  if (beta == 0) norm_partials_.fill(0);
  judge_micro_batch(state_.view(), norm_partials_.view(), loss.view(), weight, samples,
                    micro_batches_ == 0 ? 0.0f : 1.0f);
  for (Member& member : members_) keep(member, state_.view());
}

void Window::keep(Member& member, View state) {
  if (member.buffers_kept.defined())
    settle_buffers(member.parameters().buffers().view(), member.buffers_kept.view(), state,
                   Settled::micro_batch);
}

void Window::keep_buffers() {
  for (Member& member : members_)
    if (member.buffers_kept.defined()) member.buffers_kept.copy_from(member.parameters().buffers());
}

void Window::keep_buffers_with(const Window& other) {
  const MemoryScope scope(Phase::backward);
  for (Member& member : members_) keep(member, other.state_.view());
}

// The textbook loop: zero the sum at the window's start, then sum += g.
void Window::accumulate_separately(Member& member) {
  if (micro_batches_ == 0) member.sum.fill(0);
  const bool judged = options_.on_overflow == OnOverflow::drop_micro_batch && !is_meta(device_);
  const View state = judged ? state_.view() : View{};
  const Parameters& parameters = member.parameters();
  const auto reached = [](const Parameters::Entry& entry) { return entry.claimed(); };
  for (const auto [begin, end] : parameters.ranges(reached))
    accumulate(member.sum.slice(begin, end).view(), parameters.gradients().slice(begin, end).view(),
               1, state);
  for (const Parameters::Entry& entry : parameters.entries())
    member.claimed[member.number(entry)] |= entry.claimed();
}

// Each gradient, once complete, goes into the moments or the weights.
GradHook Window::dropping_hook() {
  const bool folds = options_.strategy == Strategy::moments;
  GradHook hook{folds ? GradHook::When::kernel : GradHook::When::op, {}};
  hook.complete = [this, folds](Variable& leaf) {
    const auto number = numbers_.find(&leaf);
    if (number == numbers_.end()) return;
    const Owner& parameter = owners_[number->second];
    if (folds) {
      fold(parameter, leaf.grad.view(), 1 / options_.loss_scale.initial);
    } else {
      if (has_others()) await_completed(Completed(number->second));
      step_in_backward(parameter, leaf.grad);
    }
    parameter.claimed() = 1;
    leaf.grad.reset();
    leaf.fresh = true;
    touched_ = true;
  };
  return hook;
}

// In the last micro-batch each gradient, once complete, is that of all, and so are all those after
// it in the arena that are complete, too.
GradHook Window::exchanging_hook() {
  const bool first_is_compared =
      options_.noise_scale == NoiseScale::estimate && micro_batches_ == 0;
  if (!last_is_next_ || !adds_gradually() || first_is_compared) return {};
  gradient_sum_.emplace(gradual_sum());
  GradHook hook{GradHook::When::kernel, {}};
  std::vector<char> complete;
  for (const Owner& owner : owners_) complete.push_back(owner.parameter().frozen());
  hook.complete = [this, complete = std::move(complete),
                   n = owners_.size()](Variable& leaf) mutable {
    const auto number = numbers_.find(&leaf);
    if (number == numbers_.end()) return;
    complete[number->second] = 1;
    while (n > 0 && complete[n - 1]) --n;
    if (n < owners_.size()) gradient_sum_->complete_from(owners_[n].range().begin);
  };
  return hook;
}

// The first rank counts what the moments were before the window.
void Window::fold(const Owner& parameter, const View& gradient, double scale) {
  const Earlier at_first = ranks_ && ranks_->rank() > 0 ? Earlier::drop : Earlier::decay;
  parameter.member->optimizer->fold(
      parameter.range(), gradient,
      {.scale = scale, .earlier = parameter.claimed() ? Earlier::keep : at_first});
}

std::vector<Parameters::Range> Window::stepped_ranges(const Member& member) const {
  return member.parameters().ranges([&](const Parameters::Entry& entry) {
    return !entry.frozen() && has_gradient(member, entry);
  });
}

Window::Claims Window::claims() const {
  Claims result;
  for (const Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries())
      result.push_back(has_gradient(member, entry));
  return result;
}

void Window::set_claims(const Claims& claims) {
  auto claim = claims.begin();
  for (Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries()) {
      if (options_.strategy == Strategy::fused) entry.tensor.variable()->fresh = *claim == 0;
      member.claimed[member.number(entry)] = *claim++;
    }
}

void Window::abandon() {
  const bool touched = std::exchange(touched_, false), exchanged = gradient_sum_.has_value();
  for (Member& member : members_)
    if (member.buffers_before.defined()) {
      member.parameters().buffers().copy_from(member.buffers_before);
      if (member.buffers_kept.defined()) member.buffers_kept.copy_from(member.buffers_before);
    }
  start_next();
  check(!touched,
        "a window whose gradients went into moments or weights already cannot be abandoned: use "
        "strategy fused or separate");
  check(!exchanged,
        "a window whose gradients other ranks have added up already cannot be abandoned: leave out "
        "expect_last()");
}

StateDict Window::state_dict() {
  check(micro_batches_ == 0 && in_flight_.empty(),
        "the state between two windows was asked for after {} micro-batches of one, with {} steps "
        "not reported: call step() and reports(Wait::yes) first",
        micro_batches_, in_flight_.size());
  StateDict dict;
  dict.numbers.emplace_back("window.steps", &taken_);
  dict.tensors.emplace_back("window.state", state_);
  schedule_.add_state(dict);
  for (size_t i = 0; i < members_.size(); ++i) {
    const std::string prefix =
        members_.size() == 1 ? "optimizer." : fmt::format("optimizer.{}.", i);
    members_[i].optimizer->add_state(dict, prefix);
    if (!members_[i].average.defined()) continue;
    dict.tensors.emplace_back(prefix + "average", members_[i].average);
    if (!members_[i].optimizer->owns_all())
      dict.sharded[prefix + "average"] = members_[i].parameters().values().numel();
  }
  return dict;
}

void Window::restored() {
  for (const Member& member : members_) round_copies(member.parameters());
  remember_buffers();
}

std::vector<Window::Gradient> Window::last_gradients() const {
  check(!drops_gradients(options_.strategy) && !is_meta(device_) && steps() > 0,
        "there are no gradients of a last step: expected a step before, and a strategy that keeps "
        "them");
  for (const Member& member : members_)
    check(member.optimizer->owns_all(),
          "each rank has the gradients of its shard alone: expected optimizers that own all");
  const Tensor state = device_ == Device::cpu ? state_ : state_.to(Device::cpu);
  const double scale = window_state(state.view())->outcome.grad_scale;
  std::vector<Gradient> gradients;
  for (const Member& member : members_)
    for (const Parameters::Entry& entry : member.parameters().entries())
      if (!entry.frozen())
        gradients.push_back(
            {entry.name, accumulator(member).slice(entry.range().begin, entry.range().end), scale});
  return gradients;
}

void Window::exchange_averages() {
  check(options_.ema_decay && steps() > 0,
        "the weights have no average: expected an ema_decay and an optimizer step before it");
  for (Member& member : members_) {
    const auto [begin, end] = member.optimizer->owned();
    if (begin < end)
      exchange(member.parameters().values().slice(begin, end).view(), member.average.view());
    if (member.optimizer->owns_all()) round_copies(member.parameters());
    else share_values(member);
  }
}

std::vector<const Parameters*> Window::parameters() const {
  std::vector<const Parameters*> all;
  for (const Member& member : members_) all.push_back(&member.parameters());
  return all;
}

void Window::remember_buffers() {
  for (Member& member : members_)
    for (const Tensor& remembered : {member.buffers_before, member.buffers_kept})
      if (remembered.defined()) remembered.copy_from(member.parameters().buffers());
}

void Window::start_next() {
  for (Member& member : members_) {
    member.parameters().zero_grad();
    member.parameters().drop_packed();
    std::ranges::fill(member.claimed, 0);
  }
  micro_batches_ = samples_ = 0;
  expected_samples_ = options_.effective_batch_size;
  planned_ = touched_ = last_is_next_ = false;
  gradient_sum_.reset();
}

}  // namespace accrue
