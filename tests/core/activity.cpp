// Functions that are suspended in the middle.

#include "core/activity.h"

#include <string>

#include "core/autograd.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("activities take turns where they are suspended", "[core][threads]") {
  std::string said;
  std::vector<std::unique_ptr<Activity>> all;
  for (const char name : {'a', 'b', 'c'})
    all.push_back(std::make_unique<Activity>([&, name, n = all.size()] {
      for (const char step : {'1', '2'}) {
        said += {name, step, ' '};
        all[n]->suspend();
      }
      said += {name, '.', ' '};
    }));
  while (!all.back()->is_done())
    for (const auto& each : all) each->resume();
  REQUIRE(said == "a1 b1 c1 a2 b2 c2 a. b. c. ");
}

TEST_CASE("an activity has modes of its own, and the memory scope of its maker",
          "[core][threads]") {
  bool recorded = false;
  Phase phase{};
  std::unique_ptr<Activity> activity;
  {
    const MemoryScope scope(Phase::data);
    activity = std::make_unique<Activity>([&] {
      phase = MemoryScope::phase();
      const NoGrad no_grad;
      activity->suspend();
    });
  }
  activity->resume();
  Tensor y = Tensor::full({}, 1, DType::f32, Device::cpu);
  record("test", y, {require_grad(y)}, [](Tensor&) {});
  recorded = y.variable() != nullptr;
  activity->resume();
  REQUIRE(recorded);
  REQUIRE(phase == Phase::data);
}

TEST_CASE("an activity throws in its owner, and ends with it", "[core][threads]") {
  Activity failing([] { throw Error("it failed"); });
  REQUIRE_ERROR(failing.resume(), "it failed");
  REQUIRE(failing.is_done());
  bool has_ended = false;
  {
    struct AtEnd {
      bool& happened;
      ~AtEnd() { happened = true; }
    };
    Activity* self = nullptr;
    Activity suspended([&] {
      const AtEnd at_end{has_ended};
      self->suspend();
      has_ended = false;  // not reached
    });
    self = &suspended;
    suspended.resume();
    REQUIRE_FALSE(has_ended);
    const Activity never_begun([] {});
  }
  REQUIRE(has_ended);
}

}  // namespace accrue::test
