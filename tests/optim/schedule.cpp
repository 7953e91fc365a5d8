#include "optim/schedule.h"

#include <cmath>

#include "core/inside.h"
#include "optim/optimizer.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("schedules count optimizer steps", "[window][schedule]") {
  using Kind = ScheduleOptions::Kind;
  const Schedule step({.kind = Kind::step, .base = 1, .gamma = 0.5, .every = 10});
  REQUIRE(step.lr(9) == 1);
  REQUIRE(step.lr(10) == 0.5);
  REQUIRE(step.lr(25) == 0.25);
  const Schedule cosine(
      {.kind = Kind::cosine, .base = 1, .floor = 0.1, .warmup_steps = 4, .total = 104});
  REQUIRE(cosine.lr(0) == 0.25);
  REQUIRE(cosine.lr(4) == 1);
  REQUIRE(cosine.lr(54) == Approx(0.55));
  REQUIRE(cosine.lr(104) == Approx(0.1));
  REQUIRE(cosine.lr(500) == Approx(0.1));
  Schedule plateau({.kind = Kind::plateau, .base = 1, .gamma = 0.1, .patience = 1});
  for (const double loss : {3.0, 2.0, 2.0, 2.5}) plateau.observe(loss);
  REQUIRE(plateau.lr(0) == Approx(0.1));
  REQUIRE_ERROR(Schedule({.base = -1}), "learning rate -1");
  REQUIRE_ERROR(Schedule({.kind = Kind::step, .every = 0}), "every 0 steps");
}

// The values come from torch/optim/lr_scheduler.py of PyTorch 1.13, which computes in double. Its
// recursive forms round differently.
TEST_CASE("schedules agree with PyTorch's", "[window][schedule]") {
  using Kind = ScheduleOptions::Kind;
  const auto require_lr = [](const Schedule& schedule, const std::vector<double>& expected) {
    for (size_t t = 0; t < expected.size(); ++t) {
      INFO(schedule.describe() << ", step " << t);
      REQUIRE(schedule.lr(int64_t(t)) == Approx(expected[t]).epsilon(1e-13));
    }
  };
  // OneCycleLR(max_lr=0.1, total_steps=20)
  const std::vector<double> one_cycle{0.004000000000000004,
                                      0.01316718427000253,
                                      0.03716718427000253,
                                      0.06683281572999747,
                                      0.09083281572999748,
                                      0.1,
                                      0.09874640062350874,
                                      0.09504846320134738,
                                      0.089091617757105,
                                      0.0811745653949763,
                                      0.07169430017913009,
                                      0.06112620219362893,
                                      0.0500002,
                                      0.03887419780637107,
                                      0.02830609982086992,
                                      0.0188258346050237,
                                      0.010908782242895,
                                      0.004951936798652629,
                                      0.001253999376491255,
                                      4e-07};
  require_lr(Schedule({.kind = Kind::one_cycle, .base = 0.1, .total = 20}), one_cycle);
  // OneCycleLR(max_lr=2, total_steps=7, pct_start=0.5, div_factor=10, final_div_factor=100): the
  // maximum lies between two steps.
  const std::vector<double> between{0.19999999999999996,
                                    0.8218847050625473,
                                    1.8281152949374526,
                                    1.9010678990345167,
                                    1.223298413022358,
                                    0.37813368794312524,
                                    0.002,
                                    0.002};
  require_lr(Schedule({.kind = Kind::one_cycle,
                       .base = 2,
                       .total = 7,
                       .pct_start = 0.5,
                       .div_factor = 10,
                       .final_div_factor = 100}),
             between);
  // CosineAnnealingLR(T_max=8, eta_min=0.1)
  const std::vector<double> cosine{1.0,  0.9657457896300791, 0.8681980515339464, 0.7222075445642905,
                                   0.55, 0.3777924554357097, 0.2318019484660537, 0.134254210369921,
                                   0.1};
  require_lr(Schedule({.kind = Kind::cosine, .base = 1, .floor = 0.1, .total = 8}), cosine);
  // StepLR(step_size=3, gamma=0.5)
  const std::vector<double> step{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25};
  require_lr(Schedule({.kind = Kind::step, .base = 1, .gamma = 0.5, .every = 3}), step);
  // ReduceLROnPlateau(factor=0.5, patience=1, threshold=0, min_lr=0.2)
  Schedule plateau({.kind = Kind::plateau, .base = 1, .floor = 0.2, .gamma = 0.5, .patience = 1});
  const std::vector<double> metrics{3, 2, 2, 2.5, 2.4, 1.9, 1.9, 1.9, 1.95, 1.9, 1.9, 2, 2, 2};
  const std::vector<double> rates{1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2};
  for (size_t i = 0; i < metrics.size(); ++i) {
    plateau.observe(metrics[i]);
    INFO("plateau, observation " << i);
    REQUIRE(plateau.lr(int64_t(i)) == rates[i]);
  }
}

TEST_CASE("a one-cycle schedule of any length stays between its ends", "[window][schedule]") {
  for (int64_t total = 0; total <= 12; ++total)
    for (const double pct_start : {0.0, 0.1, 0.25, 0.5, 1.0}) {
      const Schedule schedule({.kind = ScheduleOptions::Kind::one_cycle,
                               .base = 1,
                               .total = total,
                               .pct_start = pct_start});
      for (int64_t t = 0; t <= total + 2; ++t) {
        INFO(total << " steps, pct_start " << pct_start << ", step " << t);
        REQUIRE(schedule.lr(t) >= 1 / 25. / 1e4 * (1 - 1e-9));
        REQUIRE(schedule.lr(t) <= 1);
      }
    }
  using Kind = ScheduleOptions::Kind;
  REQUIRE_ERROR(Schedule({.kind = Kind::one_cycle, .warmup_steps = 3}), "warm-up of 3 steps");
  REQUIRE_ERROR(Schedule({.kind = Kind::one_cycle, .pct_start = 1.5}), "pct_start 1.5");
  REQUIRE_ERROR(Schedule({.kind = Kind::one_cycle, .div_factor = 0.5}), "div_factor 0.5");
}

TEST_CASE("beta2 by half-life forgets half of v in that number of samples", "[window][schedule]") {
  for (const int64_t effective : {1, 64, 1000}) {
    const double beta2 = beta2_of_half_life(6400, effective);
    REQUIRE(std::pow(beta2, 6400.0 / double(effective)) == Approx(0.5).epsilon(1e-12));
  }
  REQUIRE_ERROR(beta2_of_half_life(0, 64), "half-life of beta2 of 0 samples");
}

}  // namespace accrue::test
