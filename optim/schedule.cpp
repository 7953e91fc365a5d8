#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

using Kind = ScheduleOptions::Kind;

namespace {

// Goes from `begin` to `end` along half a cosine as `done` goes from 0 to 1.
double anneal(double begin, double end, double done) {
  return end + (begin - end) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

double one_cycle(const ScheduleOptions& o, double step) {
  const double start = o.base / o.div_factor, end = start / o.final_div_factor;
  const double top = o.pct_start * double(o.total) - 1, last = double(o.total) - 1;
  if (step < top) return anneal(start, o.base, step / top);
  return last > top ? anneal(o.base, end, std::min(1.0, (step - top) / (last - top))) : o.base;
}

}  // namespace

Schedule::Schedule(ScheduleOptions options) : options_(options) {
  const auto& o = options_;
  // The optimizer steps in float32, so the learning rate must be a normal float32.
  using Float = std::numeric_limits<float>;
  check(o.base == 0 || (o.base >= Float::min() && o.base <= Float::max()),
        "learning rate {}: expected 0, or {:.2g} to {:.2g}", o.base, Float::min(), Float::max());
  check(o.floor >= 0 && o.floor <= o.base, "lowest learning rate {}: expected between 0 and {}",
        o.floor, o.base);
  check(o.gamma > 0 && o.gamma <= 1, "schedule gamma {}: expected in (0, 1]", o.gamma);
  check(o.warmup_steps >= 0, "warm-up of {} steps: expected 0 or more", o.warmup_steps);
  check(o.kind != Kind::step || o.every > 0, "step schedule every {} steps: expected 1 or more",
        o.every);
  check(o.kind != Kind::plateau || o.patience >= 0, "plateau patience {}: expected 0 or more",
        o.patience);
  if (o.kind != Kind::one_cycle) return;
  check(o.pct_start >= 0 && o.pct_start <= 1, "one-cycle pct_start {}: expected in [0, 1]",
        o.pct_start);
  check(o.div_factor >= 1 && o.final_div_factor >= 1,
        "one-cycle div_factor {} and final_div_factor {}: expected 1 or more", o.div_factor,
        o.final_div_factor);
  check(o.warmup_steps == 0,
        "a one-cycle schedule has its own warm-up, the first {} of its steps: expected no warm-up "
        "of {} steps beside it",
        o.pct_start, o.warmup_steps);
}

double Schedule::lr(int64_t step) const {
  const auto& o = options_;
  if (step < o.warmup_steps) return o.base * double(step + 1) / double(o.warmup_steps);
  switch (o.kind) {
    case Kind::constant: return o.base;
    case Kind::step: return std::max(o.floor, o.base * std::pow(o.gamma, double(step / o.every)));
    case Kind::cosine: {
      const double length = double(std::max<int64_t>(1, o.total - o.warmup_steps));
      return anneal(o.base, o.floor, std::min(1.0, double(step - o.warmup_steps) / length));
    }
    case Kind::one_cycle: return one_cycle(o, double(step));
    case Kind::plateau: return std::max(o.floor, o.base * factor_);
  }
  return o.base;
}

void Schedule::observe(double metric) {
  if (metric < best_) {
    best_ = metric;
    without_improvement_ = 0;
  } else if (++without_improvement_ > options_.patience) {
    factor_ *= options_.gamma;
    without_improvement_ = 0;
  }
}

void Schedule::add_state(StateDict& dict) {
  dict.numbers.emplace_back("schedule.factor", &factor_);
  dict.numbers.emplace_back("schedule.best", &best_);
  dict.numbers.emplace_back("schedule.without_improvement", &without_improvement_);
}

std::string Schedule::describe() const {
  const auto& o = options_;
  const auto counted = [](int64_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const std::string length = o.total > 0 ? counted(o.total, "step") : "the run";
  std::string text;
  switch (o.kind) {
    case Kind::constant: text = fmt::format("constant {:g}", o.base); break;
    case Kind::step:
      text = fmt::format("{:g} times {:g} every {}", o.base, o.gamma, counted(o.every, "step"));
      break;
    case Kind::cosine:
      text = fmt::format("cosine from {:g} to {:g} over {}", o.base, o.floor, length);
      break;
    case Kind::one_cycle:
      text = fmt::format("one cycle from {:g} up to {:g} in {:g} % and down to {:g} in {}",
                         o.base / o.div_factor, o.base, 100 * o.pct_start,
                         o.base / o.div_factor / o.final_div_factor, length);
      break;
    case Kind::plateau:
      text = fmt::format("{:g} times {:g} after {} without a lower loss", o.base, o.gamma,
                         counted(o.patience, "epoch"));
      break;
  }
  if (o.warmup_steps > 0) text += fmt::format(", warm-up {}", o.warmup_steps);
  return text;
}

}  // namespace accrue
