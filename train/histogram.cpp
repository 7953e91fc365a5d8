#include "train/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace accrue {
namespace {

const std::vector<double>& limits() {
  static const std::vector<double> all = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> both;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) both.push_back(-*limit);
    both.push_back(0);
    both.insert(both.end(), positive.begin(), positive.end());
    return both;
  }();
  return all;
}

// Keeps an empty bucket only before one with values, to say where that one begins.
std::vector<Histogram::Bucket> told(const std::vector<double>& counts) {
  std::vector<Histogram::Bucket> buckets;
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool begins = i + 1 < counts.size() && counts[i + 1] > 0;
    if (counts[i] > 0 || begins) buckets.push_back({limits()[i], counts[i]});
  }
  if (buckets.empty()) buckets.push_back({std::numeric_limits<double>::max(), 0});
  return buckets;
}

}  // namespace

Histogram histogram_of(std::span<const float> values, double scale) {
  Histogram result;
  std::vector<double> counts(limits().size());
  for (const float value : values) {
    const double v = scale * double(value);
    if (!std::isfinite(v)) continue;
    result.min = result.count == 0 ? v : std::min(result.min, v);
    result.max = result.count == 0 ? v : std::max(result.max, v);
    result.count += 1;
    result.sum += v;
    result.sum_squares += v * v;
    const auto bucket = std::ranges::upper_bound(limits().begin(), limits().end() - 1, v);
    ++counts[static_cast<size_t>(bucket - limits().begin())];
  }
  result.buckets = told(counts);
  return result;
}

}  // namespace accrue
