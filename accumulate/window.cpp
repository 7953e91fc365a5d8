#include "accumulate/window.h"

#include "kernels/step/average_weights.h"
#include "kernels/step/round_copies.h"

namespace accrue {

Window::Window(Optimizer& optimizer, Schedule schedule, const WindowOptions& options)
    : optimizer_(optimizer),
      optimizer_lives_(optimizer.lifetime()),
      schedule_(std::move(schedule)),
      options_(options),
      device_(optimizer.parameters().values().device()),
      decision_(make_decision(device_, options.loss_scale.initial)),
      accumulator_(make_accumulator(optimizer, decision_, options)),
      exchange_(make_exchange(*accumulator_, decision_, options)),
      buffers_(parameters(), options.on_overflow == OnOverflow::drop_micro_batch),
      micro_steps_(device_, exchange_->records_micro_step(false) ? options.graphs : Graphs::off),
      steps_(device_, exchange_->records_step() ? options.graphs : Graphs::off),
      reports_(*accumulator_, device_) {
  if (options.ema_decay) {
    const MemoryScope scope("average of the weights");
    const auto [begin, end] = optimizer.owned();
    average_ =
        Tensor::full({end - begin}, 0, parameters().values().dtype(), device_, Category::optimizer);
  }
  start_next();
}

// Micro-batches

void Window::expect(int64_t samples) {
  check(counts_.micro_batches == 0 && samples > 0 && samples <= options_.effective_batch_size,
        "expect({}) after {} micro-batches: expected 1 to {} samples before the first", samples,
        counts_.micro_batches, options_.effective_batch_size);
  counts_.expected_samples = samples;
}

void Window::backward(WeightedLoss weighted) {
  const auto& [loss, weight, is_first, expected_samples] = weighted;
  check_usable();
  check_weight(weight, device_);
  check(counts_.samples + weight.samples <= counts_.expected_samples,
        "a window of {} samples already has {}: {} more do not fit; step() first",
        counts_.expected_samples, counts_.samples, weight.samples);
  weighted.is_first = counts_.micro_batches == 0;
  weighted.expected_samples = counts_.expected_samples;
  const bool is_compared = options_.noise_scale == NoiseScale::estimate && is_first;
  const MemoryScope scope(Phase::backward);
  accumulator_->begin(weighted);
  // Count now, because the next micro-batch may arrive while this one's backward is suspended.
  counts_.samples += weight.samples;
  ++counts_.micro_batches;
  exchange_->begin_backward(last_is_next_ && !is_compared);
  if (accumulator_->steps_in_backward()) {
    add_loss(state(), loss.value.view(), weight.of_loss(), 0);
    add_terms_of(weighted);
    decide_before_backward();
  }
  const LossSeed seed = accumulator_->seed(weighted);
  if (takes_seed(loss.value)) accrue::backward(loss.value, seed, accumulator_->hook());
  else accrue::backward(loss.value, seed_gradient(loss.value, seed), accumulator_->hook());
  accumulator_->end(weighted);
  if (!accumulator_->steps_in_backward()) {
    buffers_.settle_micro_batch(state());
    if (is_compared) {
      accumulator_->sum_squares({0, parameters().values().numel()});
      take_first_norm(state(), decision_.partials.view());
    }
    add_terms_of(weighted);
  }
  exchange_->end_backward();
}

void Window::rehearse(WeightedLoss weighted) const {
  check_weight(weighted.weight, device_);
  weighted.is_first = counts_.micro_batches == 0;
  weighted.expected_samples = counts_.expected_samples;
  const MemoryScope scope(Phase::backward);
  LossSeed seed = accumulator_->seed(weighted);
  seed.loss = seed.loss_sum = seed.weight_sum = {};
  const Tensor& loss = weighted.loss.value;
  if (takes_seed(loss)) rehearse_backward(loss, seed);
  else rehearse_backward(loss, seed_gradient(loss, seed));
}

void Window::add_terms_of(const WeightedLoss& weighted) {
  const std::vector<View> terms = terms_of(weighted.loss, device_);
  check(
      weighted.is_first || terms.size() == counts_.terms,
      "a loss has {} numbers beside it, but earlier losses of its window have {}: expected as many",
      terms.size(), counts_.terms);
  if (!terms.empty())
    add_terms(state(), terms, weighted.weight.of_loss(), weighted.is_first ? 0 : 1,
              options_.on_overflow == OnOverflow::drop_micro_batch ? DroppedTerms::leave_out
                                                                   : DroppedTerms::count);
  counts_.terms = terms.size();
}

void Window::check_usable() const {
  check(!optimizer_lives_.expired(),
        "the optimizer of a window is gone: expected it to live as long as the window");
  if (counts_.micro_batches == 0) accumulator_->check_fresh();
}

void Window::micro_step(int64_t samples, int64_t variant, const std::function<void()>& work) {
  check_usable();
  const MicroStep key{variant, samples, counts_.micro_batches == 0,
                      accumulator_->divisor(counts_.expected_samples)};
  const auto is_stale = [&](const MicroStep& other) { return other.variant < variant; };
  micro_steps_.forget_if(is_stale);
  std::erase_if(progress_after_, [&](const auto& known) { return is_stale(known.first); });
  // The plan differs from step to step, so it is not recorded.
  if (accumulator_->steps_in_backward() && !exchange_->has_others()) tell_device();
  const WindowCounts before = counts_;
  // The work is called twice if CUDA refuses to record it.
  std::optional<Accumulator::Progress> progress_before;
  const auto work_from_start = [&] {
    if (progress_before) {
      counts_ = before;
      accumulator_->start_next();
      accumulator_->set_progress(*progress_before);
    } else if (micro_steps_.records()) {
      progress_before = accumulator_->progress();
    }
    work();
  };
  const auto replay = exchange_->records_micro_step(last_is_next_) ? Replay::yes : Replay::no;
  if (micro_steps_.run(key, work_from_start, replay)) {
    check(counts_.micro_batches == before.micro_batches + 1,
          "a micro-step called backward() {} times: expected once, with its losses added up",
          counts_.micro_batches - before.micro_batches);
    if (micro_steps_.records()) progress_after_[key] = accumulator_->progress();
  } else {
    counts_.samples += samples;
    ++counts_.micro_batches;
    accumulator_->set_progress(progress_after_.at(key));
  }
}

void Window::keep_buffers() { buffers_.remember_for_micro_batch(); }

void Window::keep_buffers_with(const Window& other) {
  const MemoryScope scope(Phase::backward);
  buffers_.settle_micro_batch(other.state());
}

// The step

StepReport Window::step() {
  enqueue_step();
  return reports_.take_last();
}

void Window::enqueue_step() {
  const MemoryScope scope(Phase::step);
  prepare_step();
  steps_.run({Part::whole, accumulator_->progress()}, [this] { run_step(Part::whole); });
  finish_step();
}

void Window::enqueue_together(const std::vector<Window*>& windows) {
  check(!windows.empty(), "no windows to step together: expected one or more");
  const MemoryScope scope(Phase::step);
  for (Window* window : windows) {
    check(window->device_ == windows.front()->device_,
          "windows on {} and {} cannot step together: expected one device",
          name(windows.front()->device_), name(window->device_));
    window->accumulator_->check_can_skip();
    window->prepare_step();
  }
  const auto run = [&](Part part) {
    for (Window* window : windows)
      window->steps_.run({part, window->accumulator_->progress()}, [=] { window->run_step(part); });
  };
  run(Part::decide);
  // The first window takes over a skip from any other, then all others from the first.
  Window& first = *windows.front();
  for (Window* window : windows) veto_step(first.state(), window->state());
  for (Window* window : windows) veto_step(window->state(), first.state());
  run(Part::apply);
  for (Window* window : windows) window->finish_step();
}

// Sends the host's plan for this window's step to the device, once per window.
void Window::tell_device() {
  if (std::exchange(is_planned_, true)) return;
  reports_.make_room();
  plan_step(state(), plan_of(options_, schedule_, reports_.taken()));
}

void Window::decide_before_backward() {
  decided_by_ = exchange_->add_counts(counts_);
  tell_device();
  decide();
  optimizer_.begin_step(decision_.outcome());
}

// Decides from the loss and from the known partial sums of the gradient.
void Window::decide() { decide_step(state(), decision_.partials.view(), options_.noise_scale); }

void Window::prepare_step() {
  check_usable();
  kept_samples_ = exchange_->kept_samples(counts_);
  if (!accumulator_->steps_in_backward()) {
    counts_ = exchange_->add_counts(counts_);
    exchange_->add_gradients();
  } else if (exchange_->has_others()) {
    if (counts_.micro_batches == 0) {
      decide_before_backward();
      exchange_->join_backward();
    }
    counts_ = decided_by_;
  }
  exchange_->mean_buffers(kept_samples_);
  check(counts_.samples > 0, "step() of a window without micro-batches");
  accumulator_->check_whole(counts_);
  tell_device();
}

// All work on the device between the last gradient and the next window.
void Window::run_step(Part part) {
  const bool has_begun = accumulator_->steps_in_backward();
  if (part != Part::apply) {
    check(accumulator_->sum_squares(exchange_->shard()),
          "step() of a window in which no parameter received a gradient");
    exchange_->add_norms();
    if (!has_begun) decide();
  }
  if (part == Part::decide) return;
  if (!has_begun) optimizer_.begin_step(decision_.outcome());
  const Parameters::Range owned = optimizer_.owned();
  for (const Parameters::Range reached : accumulator_->ranges())
    if (const auto range = intersection(reached, owned); range.begin < range.end)
      accumulator_->step(range);
  if (average_.defined() && average_.numel() > 0)
    average_weights(average_.view(), parameters().values().slice(owned.begin, owned.end).view(),
                    decision_.outcome(), *options_.ema_decay);
  exchange_->share_values();
  buffers_.settle_step(state());
}

void Window::settle_buffers_with(const Window& other) {
  const MemoryScope scope(Phase::step);
  exchange_->mean_buffers(other.kept_samples_);
  buffers_.settle_step(other.state());
}

void Window::finish_step() {
  parameters().mark_overwritten();
  reports_.push(counts_, lr(), state());
  start_next();
}

// Between windows

void Window::start_next() {
  accumulator_->start_next();
  parameters().drop_packed();
  exchange_->start_next();
  // A recorded micro-step does not say how many terms it has: assume as many as before.
  counts_ = {.expected_samples = options_.effective_batch_size, .terms = counts_.terms};
  is_planned_ = last_is_next_ = false;
}

void Window::abandon() {
  const Accumulator::Progress progress = accumulator_->progress();
  const bool is_under_way = exchange_->is_under_way();
  buffers_.restore();
  start_next();
  Accumulator::check_untouched(progress);
  Exchange::check_was_not(is_under_way);
}

StateDict Window::state_dict() {
  check(counts_.micro_batches == 0 && reports_.in_flight() == 0,
        "the state between two windows was asked for after {} micro-batches of one, with {} steps "
        "not reported: call step() and reports(Wait::yes) first",
        counts_.micro_batches, reports_.in_flight());
  StateDict dict;
  dict.numbers.emplace_back("window.steps", &reports_.taken());
  dict.tensors.emplace_back("window.state", decision_.state);
  schedule_.add_state(dict);
  optimizer_.add_state(dict, "optimizer.");
  if (!average_.defined()) return dict;
  dict.tensors.emplace_back("optimizer.average", average_);
  if (!optimizer_.owns_all()) dict.sharded["optimizer.average"] = parameters().values().numel();
  return dict;
}

void Window::restored() {
  round_copies(parameters());
  buffers_.remember();
}

std::vector<Window::Gradient> Window::last_gradients() const {
  const Tensor sum = accumulator_->kept_sum();
  check(!is_meta(device_) && steps() > 0, "there are no gradients of a last step: expected one");
  const Tensor on_host = device_ == Device::cpu ? decision_.state : decision_.state.to(Device::cpu);
  const double scale = window_state(on_host.view())->outcome.grad_scale;
  std::vector<Gradient> gradients;
  for (const Parameters::Entry& entry : parameters().entries())
    if (!entry.frozen())
      gradients.push_back({entry.name, sum.slice(entry.range().begin, entry.range().end), scale});
  return gradients;
}

void Window::exchange_averages() {
  check(options_.ema_decay && steps() > 0,
        "the weights have no average: expected an ema_decay and an optimizer step before it");
  const auto [begin, end] = optimizer_.owned();
  if (begin < end) exchange(parameters().values().slice(begin, end).view(), average_.view());
  parameters().mark_overwritten();
  round_copies(parameters());
  exchange_->share_values();
}

}  // namespace accrue
