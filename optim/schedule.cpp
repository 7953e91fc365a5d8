#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace accrue {

using Kind = ScheduleOptions::Kind;

Schedule::Schedule(ScheduleOptions options) : options_(options) {
  const auto& o = options_;
  check(o.base >= 0 && std::isfinite(o.base), "learning rate {}: expected 0 or more", o.base);
  check(o.floor >= 0 && o.floor <= o.base, "lowest learning rate {}: expected between 0 and {}",
        o.floor, o.base);
  check(o.gamma > 0 && o.gamma <= 1, "schedule gamma {}: expected in (0, 1]", o.gamma);
  check(o.warmup_steps >= 0, "warm-up of {} steps: expected 0 or more", o.warmup_steps);
  check(o.kind != Kind::step || o.every > 0, "step schedule every {} steps: expected 1 or more",
        o.every);
  check(o.kind != Kind::plateau || o.patience >= 0, "plateau patience {}: expected 0 or more",
        o.patience);
}

double Schedule::lr(int64_t step) const {
  const auto& o = options_;
  if (step < o.warmup_steps) return o.base * double(step + 1) / double(o.warmup_steps);
  switch (o.kind) {
    case Kind::constant: return o.base;
    case Kind::step: return std::max(o.floor, o.base * std::pow(o.gamma, double(step / o.every)));
    case Kind::cosine: {
      const double length = double(std::max<int64_t>(1, o.total - o.warmup_steps));
      const double done = std::min(1.0, double(step - o.warmup_steps) / length);
      return o.floor + (o.base - o.floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
    }
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

std::string Schedule::describe() const {
  const auto& o = options_;
  std::string text;
  switch (o.kind) {
    case Kind::constant: text = fmt::format("constant {:g}", o.base); break;
    case Kind::step:
      text = fmt::format("{:g} times {:g} every {} steps", o.base, o.gamma, o.every);
      break;
    case Kind::cosine:
      text = fmt::format("cosine from {:g} to {:g} over {}", o.base, o.floor,
                         o.total > 0 ? fmt::format("{} steps", o.total) : "the run");
      break;
    case Kind::plateau:
      text = fmt::format("{:g} times {:g} after {} epochs without a lower loss", o.base, o.gamma,
                         o.patience);
      break;
  }
  if (o.warmup_steps > 0) text += fmt::format(", warm-up {}", o.warmup_steps);
  return text;
}

}  // namespace accrue
