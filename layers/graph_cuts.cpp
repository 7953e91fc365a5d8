// Where a graph is cut for Recompute.

#include <algorithm>
#include <limits>

#include "core/inside.h"
#include "layers/graph_parts.h"

namespace accrue {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A place where a schedule may be cut, before the call at this position.
struct Place {
  size_t position;
  bool is_single;  // one differentiable value alone crosses
};

// A result: the calls that make it and read it last, by position.
struct Result {
  size_t made, last_use;
  double weight;
  bool is_differentiable;
};

// The weights of the segments between places i < j.
class Weights {
 public:
  Weights(const std::vector<Place>& places, const std::vector<Result>& results,
          const std::vector<double>& calls)
      : n_(places.size()), until_(n_), kept_(n_ * n_) {
    for (size_t i = 0; i + 1 < n_; ++i) {
      until_[i + 1] = until_[i];
      for (size_t p = places[i].position; p < places[i + 1].position; ++p)
        until_[i + 1] += calls[p];
    }
    for (const Result& result : results) {
      const auto behind =
          std::ranges::upper_bound(places, result.made, {}, [](Place p) { return p.position; });
      const auto made = size_t(behind - places.begin()) - 1;
      for (size_t j = made + 1; j < n_ && places[j].position <= result.last_use; ++j)
        kept_[made * n_ + j] += result.weight;
    }
    for (size_t j = 0; j < n_; ++j)
      for (size_t i = j; i-- > 0;) kept_[i * n_ + j] += i + 1 < j ? kept_[(i + 1) * n_ + j] : 0;
  }

  // All results of the segment.
  double inside(size_t i, size_t j) const { return until_[j] - until_[i]; }
  // The results that are read behind it.
  double kept(size_t i, size_t j) const { return kept_[i * n_ + j]; }
  double total() const { return until_.back(); }

 private:
  size_t n_;
  std::vector<double> until_, kept_;
};

// The places to cut at, from the first on, so that no segment weighs more than `most` together with
// the results that are kept for it and before it; and so that the kept results weigh least. Empty
// if there are no such places.
std::vector<size_t> cut_within(double most, const std::vector<Place>& places,
                               const Weights& weights, bool at_singles) {
  std::vector<double> kept(places.size(), infinity);
  std::vector<size_t> before(places.size());
  kept[0] = 0;
  for (size_t j = 1; j < places.size(); ++j)
    for (size_t i = j; i-- > 0;) {
      const bool fits = kept[i] + weights.inside(i, j) <= most;
      // All of a graph's results are read behind the last segment, which keeps none of them.
      const double with = kept[i] + (j + 1 < places.size() ? weights.kept(i, j) : 0);
      if (fits && with < kept[j]) {
        kept[j] = with;
        before[j] = i;
      }
      if (at_singles && places[i].is_single) break;
    }
  if (kept.back() == infinity) return {};
  std::vector<size_t> found;
  for (size_t j = places.size() - 1; j > 0; j = before[j]) found.push_back(j);
  std::ranges::reverse(found);
  return found;
}

// The ends of segments that weigh least.
std::vector<size_t> ends_of(const std::vector<Place>& places, const Weights& weights,
                            bool at_singles) {
  // With rounding, which must not make the sums of weights too large.
  double most = weights.total() * (1 + 1e-9), too_little = 0;
  std::vector<size_t> best = cut_within(most, places, weights, at_singles);
  for (int i = 0; i < 30; ++i) {
    const double middle = (most + too_little) / 2;
    std::vector<size_t> found = cut_within(middle, places, weights, at_singles);
    if (found.empty()) {
      too_little = middle;
    } else {
      most = middle;
      best = std::move(found);
    }
  }
  std::vector<size_t> ends;
  for (const size_t place : best) ends.push_back(places[place].position);
  return ends;
}

// Between any two calls with weights the last place where the results that cross weigh least.
std::vector<Place> places_of(size_t first, const std::vector<bool>& has_weights,
                             const std::vector<int>& crossing, const std::vector<double>& weights) {
  std::vector<Place> places{{first, true}};
  const size_t n = has_weights.size();
  size_t best = 0;
  bool is_behind_weights = false;
  for (size_t p = first; p < n; ++p) {
    if (is_behind_weights && (best == 0 || weights[p] <= weights[best])) best = p;
    if (!has_weights[p]) continue;
    if (best > 0) places.push_back({best, crossing[best] == 1});
    is_behind_weights = true;
    best = 0;
  }
  places.push_back({n, true});
  return places;
}

}  // namespace

std::shared_ptr<const Graph::Cutting> Graph::cutting_for(const Schedule& plain,
                                                         std::vector<bool> differentiable,
                                                         Recompute recompute) const {
  const std::lock_guard lock(cutting_mutex_);
  if (cutting_ && cutting_->recompute == recompute && cutting_->differentiable == differentiable &&
      cutting_->schedule->outputs == plain.outputs)
    return cutting_;

  // Calls without gradients whose operands are such calls' results run first.
  std::vector<bool> is_early(calls_.size());
  for (size_t c = 0; c < calls_.size(); ++c)
    is_early[c] = !is_differentiable(calls_[c], differentiable) &&
                  std::ranges::all_of(calls_[c].operands, [&](size_t value) {
                    const auto made_by = value == Value::none ? std::nullopt : values_[value].call;
                    return !made_by || is_early[*made_by];
                  });
  // A linear and what is joined to it stay together: apart they would round otherwise.
  for (size_t p = 0; p < plain.order.size(); ++p)
    if (is_linear(calls_[plain.order[p]]) && plain.joined[p] != Value::none)
      is_early[plain.order[p]] = is_early[plain.order[plain.joined[p]]];
  std::vector<size_t> order = plain.order;
  const auto behind = std::ranges::stable_partition(order, [&](size_t c) { return is_early[c]; });
  const size_t first = order.size() - behind.size(), n = order.size();
  const auto schedule =
      std::make_shared<const Schedule>(schedule_of(std::move(order), plain.outputs));

  std::vector<Result> results;
  std::vector<bool> has_weights(n);
  std::vector<double> call_weights(n);
  for (size_t p = 0; p < n; ++p) {
    const Call& call = calls_[schedule->order[p]];
    has_weights[p] = call.has_weights;
    call_weights[p] = call.weight;
    if (p < first) continue;
    for (const size_t result : call.results)
      results.push_back({p, schedule->last_use[result], call.weight / double(call.results.size()),
                         differentiable[result]});
  }
  std::vector<int> crossing(n);
  std::vector<double> weights(n);
  for (const Result& result : results)
    for (size_t p = result.made + 1; p < n && p <= result.last_use; ++p) {
      crossing[p] += result.is_differentiable;
      weights[p] += result.weight;
    }
  for (const size_t input : inputs_)
    for (size_t p = 0; differentiable[input] && p < n && p <= schedule->last_use[input]; ++p)
      ++crossing[p];
  for (size_t p = 0; p < n; ++p)
    if (is_linear(calls_[schedule->order[p]]) && schedule->joined[p] != Value::none)
      weights[schedule->joined[p]] = infinity;
  const std::vector<Place> places = places_of(first, has_weights, crossing, weights);
  std::vector<size_t> ends =
      ends_of(places, Weights(places, results, call_weights), recompute == Recompute::all);
  cutting_ = std::make_shared<const Cutting>(
      Cutting{std::move(differentiable), recompute, schedule, first, std::move(ends)});
  return cutting_;
}

}  // namespace accrue
