#include "accumulate/ladder/rung.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/cuda.h"
#include "core/median.h"

namespace accrue::ladder {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A turn takes at least this many seconds: a thousand times the uncertainty of clocks and launches.
constexpr double shortest_turn = 1e-3;

class Timer {
 public:
  explicit Timer(Device device) {
    if (device == Device::cuda) stopwatch_.emplace();
  }

  // The seconds of one run, averaged over `repetitions`.
  double seconds_of(const Rung& rung, int64_t repetitions) {
    const auto start = Clock::now();
    if (stopwatch_) stopwatch_->start();
    for (int64_t i = 0; i < repetitions; ++i) rung.run();
    if (stopwatch_) stopwatch_->stop();
    const double seconds = stopwatch_ ? stopwatch_->seconds() : since(start);
    return seconds / static_cast<double>(repetitions);
  }

 private:
  std::optional<accrue::cuda::Stopwatch> stopwatch_;
};

size_t index_of(const std::string& name, const std::vector<Result>& results) {
  const auto at =
      std::ranges::find(results, name, [](const Result& result) { return result.rung.name; });
  check(at != results.end(), "there is no rung '{}' to subtract", name);
  return static_cast<size_t>(at - results.begin());
}

}  // namespace

std::vector<Result> check_rungs(const std::vector<Rung>& rungs,
                                const std::function<void()>& reset) {
  std::vector<Result> results;
  for (const Rung& rung : rungs) {
    reset();
    rung.run();
    results.push_back({rung, rung.error()});
  }
  return results;
}

int64_t measure(std::vector<Result>& results, Device device, double seconds) {
  Timer timer(device);
  std::vector<int64_t> repetitions;
  for (const Result& result : results) {
    const double once = timer.seconds_of(result.rung, 1);
    repetitions.push_back(static_cast<int64_t>(std::ceil(shortest_turn / std::max(once, 1e-7))));
  }
  std::vector<std::vector<double>> times(results.size());
  int64_t rounds = 0;
  for (const auto start = Clock::now(); rounds < 3 || since(start) < seconds; ++rounds)
    for (size_t i = 0; i < results.size(); ++i)
      times[i].push_back(timer.seconds_of(results[i].rung, repetitions[i]));

  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<double> own = times[i];
    if (const std::string& beyond = results[i].rung.beyond; !beyond.empty())
      std::ranges::transform(own, times[index_of(beyond, results)], own.begin(), std::minus());
    results[i].seconds = median(std::move(own));
  }
  return rounds;
}

void require_ok(const std::vector<Result>& results) {
  std::string wrong;
  for (const Result& result : results)
    if (!result.ok())
      wrong += fmt::format("{}'{}' of {} is off by {:.3g} times what rounding explains",
                           wrong.empty() ? "" : "; ", result.rung.name, result.rung.ladder,
                           result.error);
  check(wrong.empty(), "{}", wrong);
}

}  // namespace accrue::ladder
