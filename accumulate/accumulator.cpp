#include "accumulate/accumulator.h"

#include <algorithm>

#include "accumulate/squared_norm.h"

namespace accrue {

Accumulator::Accumulator(Optimizer& optimizer, const StepDecision& decision,
                         const WindowOptions& options)
    : optimizer_(optimizer), decision_(decision), options_(options) {
  const bool on_demand = gradient_storage(options.strategy) == GradientStorage::on_demand;
  check(on_demand != parameters().gradients().defined(),
        "the parameters' gradients are {}: expected gradient_storage(strategy)",
        on_demand ? "in an arena" : "on demand");
  for (const Parameters::Entry& entry : parameters().entries())
    numbers_.emplace(entry.tensor.variable().get(), numbers_.size());
  progress_.reached.resize(numbers_.size());
}

int64_t Accumulator::divisor(int64_t) const { return options_.effective_batch_size; }

std::vector<Parameters::Range> Accumulator::ranges() const {
  const std::vector<char> reached = progress().reached;
  const Parameters::Entry* const first = parameters().entries().data();
  return parameters().ranges([&](const Parameters::Entry& entry) {
    return !entry.frozen() && reached[static_cast<size_t>(&entry - first)] != 0;
  });
}

bool Accumulator::sum_squares(Parameters::Range within) const {
  const auto all = ranges();
  float beta = 0;
  if (const Tensor gradient = sum(); gradient.defined())
    for (const Parameters::Range range : all)
      if (const auto [begin, end] = intersection(range, within); begin < end) {
        squared_norm({decision_.partials.view(), beta}, gradient.slice(begin, end).view());
        beta = 1;
      }
  if (beta == 0) decision_.partials.fill(0);
  return !all.empty();
}

void Accumulator::step(Parameters::Range range) {
  optimizer_.step(range, sum().slice(range.begin, range.end).view(), decision_.outcome());
}

std::vector<Tensor> Accumulator::sums() {
  return sum().defined() ? std::vector{sum()} : std::vector<Tensor>();
}

void Accumulator::add_nothing(size_t parameter) {
  const auto [begin, end] = entry(parameter).range();
  if (sum().defined()) sum().slice(begin, end).fill(0);
}

void Accumulator::set_claimed(Variable& leaf, bool claimed) const {
  leaf.fresh = !claimed;
  leaf.grad_of = this;
}

void Accumulator::drop(Variable& leaf) {
  leaf.grad.reset();
  leaf.fresh = true;
}

void Accumulator::step_parameter(size_t, const Tensor&) {
  throw Error("this strategy does not step parameters one by one");
}

void Accumulator::check_untouched(const Progress& of_window) {
  check(!of_window.touched,
        "a window whose gradients went into moments or weights already cannot be abandoned: use "
        "strategy fused or separate");
}

void Accumulator::check_can_skip() const {
  check(sum().defined(),
        "windows that step together are skipped together, which strategies moments and "
        "step-in-backward cannot be: expected fused or separate");
}

Tensor Accumulator::kept_sum() const {
  check(sum().defined(),
        "there are no gradients of a last step: expected a strategy that keeps them");
  check(optimizer_.owns_all(),
        "each rank has the gradients of its shard alone: expected an optimizer that owns all");
  return sum();
}

void Accumulator::check_fresh() const {
  for (const Parameters::Entry& entry : parameters().entries())
    check(entry.frozen() || !entry.claimed(),
          "'{}' has a gradient before the first micro-batch of a window, which would add to it: "
          "call zero_grad() on the parameters after a backward() of your own",
          entry.name);
}

void Accumulator::start_next() {
  parameters().zero_grad();
  std::ranges::fill(progress_.reached, 0);
  progress_.touched = false;
}

LossSeed Accumulator::seed(const WeightedLoss& weighted) const {
  const LossWeight weight = weighted.weight.of_loss();
  const auto of = double(divisor(weighted.expected_samples));
  if (!adds_loss_in_backward()) return loss_seed(state(), weight, of);
  return loss_seed(state(), weight, of, weighted.loss.value.future_view(),
                   weighted.is_first ? 0 : 1);
}

GradHook Accumulator::hook() {
  GradHook hook{.sum = this};
  const auto when = takes();
  if (!when) return hook;
  hook.when = *when;
  hook.complete = [this](Variable& leaf) {
    if (const auto number = numbers_.find(&leaf); number != numbers_.end())
      take(number->second, leaf);
  };
  return hook;
}

std::unique_ptr<Accumulator> detail::make_accumulator(Optimizer& optimizer,
                                                      const StepDecision& decision,
                                                      const WindowOptions& options) {
  check_options(options);
  return facts_of(options.strategy).make(optimizer, decision, options);
}

}  // namespace accrue
