#include "train/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "accumulate/ranks.h"
#include "core/ceil_div.h"
#include "core/inside.h"
#include "train/relative_cost.h"
#include "train/training.h"

namespace accrue {
namespace {

template <class Enum>
std::vector<Enum> values(const std::map<std::string, Enum>& names) {
  std::vector<Enum> found;
  for (const auto& [name, value] : names) found.push_back(value);
  return found;
}

// A larger micro-batch may need less memory, because scratch and the remainder depend on it. So if
// one does not fit, the search tries sizes up to this one before it gives up.
int64_t doubted_until(int64_t micro) { return std::max<int64_t>(micro, 32) + 8; }

// The largest size from 1 to `whole` for which fits() holds and does not hold for the next size
// tried; 0 if there is none.
int64_t largest_that_fits(int64_t whole, const std::function<bool(int64_t)>& fits) {
  if (fits(whole)) return whole;
  int64_t fitting = 0, failing = whole;
  while (failing - fitting > 1) {
    const int64_t middle = fitting + (failing - fitting) / 2;
    (fits(middle) ? fitting : failing) = middle;
  }
  for (int64_t n = fitting + 1; n < whole && n <= doubted_until(fitting); ++n)
    if (fits(n)) fitting = n;
  return fitting;
}

// The largest micro-batch with which every rank has a share of a window.
int64_t largest_micro_batch(const TrainingOptions& options) {
  return ceil_div(options.batches.effective, int64_t(options.ranks ? options.ranks->count() : 1));
}

// How samples are split: the micro-batch, and the most elements of a sample to compute at a time.
struct Cut {
  int64_t micro, piece;
  auto operator<=>(const Cut&) const = default;
};

// The windows of one strategy and recompute.
class Candidate {
 public:
  Candidate(const TrainingOptions& options, const Datasets& planned, Device device, size_t memory)
      : options_(options),
        planned_(planned),
        device_(device),
        memory_(memory),
        piece_(options.batches.piece) {}

  // Throws Error for options that cannot be combined.
  Alternative best() {
    const int64_t whole = largest_micro_batch(options_);
    peak({whole, piece_});
    // A strategy without accumulation throws for a smaller micro-batch, and so do too many walks.
    try {
      peak({1, piece_});
    } catch (const Error& error) {
      why_whole_ = error.what();
      return alternative({whole, piece_});
    }
    const int64_t micro = largest_that_fits(whole, [this](int64_t n) {
      return fits(Cut{n, piece_});
    });
    if (micro > 0) return alternative({micro, piece_});
    if (piece_ == 0)
      if (const int64_t piece = largest_piece_that_fits()) return alternative({1, piece});
    return least_memory();
  }

  // Why best() has not tried smaller micro-batches; empty if it has.
  const std::string& why_whole() const { return why_whole_; }

  // The alternative whose split needs the least memory among those that were run.
  Alternative least_memory() {
    Cut least = needs_.rbegin()->first;
    for (const auto& [cut, needed] : needs_)
      if (needed.peak.total() < needs_.at(least).peak.total()) least = cut;
    return alternative(least);
  }

  // With whole samples, or with the pieces that the options request.
  Alternative alternative(int64_t micro) { return alternative({micro, piece_}); }

 private:
  struct Needs {
    Usage peak;
    size_t on_host;
  };

  bool fits(const Cut& cut) { return peak(cut).total() <= memory_; }

  // The first that fits of half a sample, a quarter of it, ...; 0 if there is none, or once halving
  // saves less than a hundredth.
  int64_t largest_piece_that_fits() {
    size_t before = peak({1, 0}).total();
    int64_t piece = options_.objective_for(planned_.train)->divisible_length(planned_.train);
    while (piece > 1) {
      piece = ceil_div<int64_t>(piece, 2);
      if (fits({1, piece})) return piece;
      const size_t now = peak({1, piece}).total();
      if (now > before - before / 100) break;
      before = now;
    }
    return 0;
  }

  Alternative alternative(const Cut& cut) {
    const Needs& needed = needs(cut);
    options_.batches.micro = cut.micro;
    options_.batches.piece = cut.piece;
    TrainingOptions plain = options_;
    plain.strategy = reference_strategy();
    // Not every strategy can drop a micro-batch.
    plain.on_overflow = OnOverflow::skip_window;
    plain.recompute = Recompute::none;
    plain.batch_norm_by = BatchNormBy::keep;
    plain.batches.micro = plain.batches.effective;
    plain.batches.piece = 0;
    return {.batches = options_.batches,
            .strategy = options_.strategy,
            .recompute = options_.recompute,
            .batch_norm_by = options_.batch_norm_by,
            .peak = needed.peak,
            .on_host = needed.on_host,
            .relative_cost = window_cost(options_, planned_.train, device_) /
                             window_cost(plain, planned_.train, device_),
            .fits = needed.peak.total() <= memory_};
  }

  const Usage& peak(const Cut& cut) { return needs(cut).peak; }

  const Needs& needs(const Cut& cut) {
    if (const auto known = needs_.find(cut); known != needs_.end()) return known->second;
    options_.batches.micro = cut.micro;
    options_.batches.piece = cut.piece;
    // With an offloaded window, the run charges nothing else to the host.
    Ledger& host = ledger(Device::meta);
    const size_t before = host.current().total();
    host.reset_peak();
    const Usage peak = planned_peak(options_, planned_.train, device_, &planned_.test);
    const bool offloads = options_.batch_norm_by == BatchNormBy::offload;
    return needs_[cut] = {peak, offloads ? host.peak().total() - before : 0};
  }

  TrainingOptions options_;  // with the split that was tried last
  const Datasets& planned_;
  Device device_;
  size_t memory_;
  int64_t piece_;  // that the options request; 0: whole samples
  std::string why_whole_;
  std::map<Cut, Needs> needs_;
};

bool differs(const Alternative& a) { return !facts_of(a.strategy).differs.empty(); }

// The cost, rounded to the precision of the estimate. Nothing counts as cheaper than one batch.
int64_t hundredths(double cost) { return std::max<int64_t>(100, std::llround(100 * cost)); }

bool better(const Alternative& a, const Alternative& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.peak.total() < b.peak.total();
  const int64_t cost = hundredths(a.relative_cost), other = hundredths(b.relative_cost);
  if (cost != other) return cost < other;
  if (differs(a) != differs(b)) return differs(b);
  return std::pair(a.batches.micro, a.batches.piece) > std::pair(b.batches.micro, b.batches.piece);
}

}  // namespace

TrainingOptions detail::in_this_way(TrainingOptions options, const Alternative& a) {
  options.batches = a.batches;
  options.strategy = a.strategy;
  options.recompute = a.recompute;
  options.batch_norm_by = a.batch_norm_by;
  return options;
}

bool Alternative::is_as(const Alternative& other) const {
  const auto way = [](const Alternative& a) {
    return std::tuple(a.batches.micro, a.batches.effective, a.batches.piece, a.strategy,
                      a.recompute, a.batch_norm_by);
  };
  return way(*this) == way(other);
}

SearchSpace detail::only_choice(const TrainingOptions& options) {
  return {{options.strategy}, {options.recompute}, {options.batch_norm_by}};
}

SearchSpace all_choices(const TrainingOptions& options, Device device) {
  std::vector<BatchNormBy> ways{BatchNormBy::keep};
  if (options.batch_norm == BatchNormOver::window) {
    if (plans_for_cuda(device)) ways.push_back(BatchNormBy::offload);
    ways.push_back(BatchNormBy::walk);
  }
  return {values(strategy_names()), values(recompute_names()), ways};
}

std::vector<const Alternative*> Plan::candidates(const std::vector<Alternative>& all) {
  const bool only = std::ranges::all_of(all, differs);
  std::vector<const Alternative*> found;
  for (const Alternative& a : all)
    if (only || !differs(a)) found.push_back(&a);
  return found;
}

const Alternative* Plan::recommended() const {
  const Alternative* first = candidates(alternatives).front();
  return first->fits ? first : nullptr;
}

const Alternative& Plan::smallest() const {
  const auto all = candidates(least_memory);
  return **std::ranges::min_element(
      all, {}, [](const Alternative* a) { return std::pair(a->peak.total(), a->relative_cost); });
}

Plan plan_windows(const TrainingOptions& options, const Datasets& planned, Device device,
                  size_t memory, const SearchSpace& space) {
  Plan plan{.memory = memory};
  std::vector<std::pair<Strategy, std::string>> refused;
  TrainingOptions varied = options;
  const auto add = [&] {
    try {
      Candidate candidate(varied, planned, device, memory);
      const Alternative best = candidate.best();
      plan.least_memory.push_back(candidate.least_memory());
      const int64_t whole = largest_micro_batch(options);
      const bool is_whole = best.batches.micro == whole;
      const bool keeps = varied.batch_norm_by == BatchNormBy::keep;
      const bool is_reference = facts_of(varied.strategy).is_reference;
      if (varied.batch_norm_by == BatchNormBy::walk && is_reference)
        plan.too_many_walks = candidate.why_whole();
      if (!keeps && is_whole && !plan.alternatives.empty()) return;
      plan.alternatives.push_back(best);
      if (is_reference && varied.recompute == Recompute::none && keeps && !is_whole)
        plan.alternatives.push_back(candidate.alternative(whole));
    } catch (const Error& error) {
      const std::string reason =
          fmt::format("strategy {}: {}", name_in(strategy_names(), varied.strategy), error.what());
      check(space.strategies.size() > 1, "{}", reason);
      refused.emplace_back(varied.strategy, reason);
    }
  };
  for (const Strategy strategy : space.strategies)
    for (const Recompute recompute : space.recomputes)
      for (const BatchNormBy by : space.batch_norm_by) {
        varied.strategy = strategy;
        varied.recompute = recompute;
        varied.batch_norm_by = by;
        add();
      }
  for (const auto& [strategy, reason] : refused)
    if (std::ranges::find(plan.alternatives, strategy, &Alternative::strategy) ==
            plan.alternatives.end() &&
        std::ranges::find(plan.refused, reason) == plan.refused.end())
      plan.refused.push_back(reason);
  check(!plan.alternatives.empty(), "{}", fmt::join(plan.refused, "\n"));
  std::ranges::stable_sort(plan.alternatives, better);
  return plan;
}

Alternative detail::as_asked(const TrainingOptions& options, const Datasets& planned, Device device,
                             size_t memory) {
  return Candidate(options, planned, device, memory).alternative(options.batches.micro);
}

}  // namespace accrue
