#include "report/window_timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/inside.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

using Json = nlohmann::json;

Json change(double us, size_t parameters, size_t activations) {
  return {{"name", "memory"},
          {"ph", "C"},
          {"ts", us},
          {"args", {{"parameters", parameters}, {"activations", activations}}}};
}

Json phase(const char* name, double us, double duration, int step, int micro_batch = 0) {
  return {{"name", name},    {"ph", "X"},
          {"cat", "phase"},  {"ts", us},
          {"dur", duration}, {"args", {{"step", step}, {"micro_batch", micro_batch}}}};
}

Json trace_of(std::vector<Json> events) { return {{"traceEvents", std::move(events)}}; }

}  // namespace

TEST_CASE("a timeline is the last whole window, from its start", "[report]") {
  const Json timeline = window_timeline(trace_of({
      change(0, 10, 0),
      phase("setup", 0, 100, 0),
      change(150, 10, 900),
      phase("forward", 100, 1000, 0),
      phase("backward", 1100, 1000, 0),
      change(2050, 10, 7),
      phase("step", 2100, 100, 0, 1),
      phase("forward", 3000, 1000, 1),
      change(3500, 10, 40),
      change(4200, 10, 90),
      change(4300, 10, 20),
      phase("backward", 4000, 1000, 1),
      phase("step", 5000, 500, 1, 1),
      // A window that was not finished.
      phase("forward", 6000, 1000, 2),
      change(6500, 10, 5000),
  }));
  REQUIRE(timeline["duration_ms"] == 2.5);
  REQUIRE(timeline["peak_bytes"] == 100);
  const std::vector<double> ms{0, 0.5, 1.2, 1.3};
  const std::vector<int> parameters{10, 10, 10, 10}, activations{7, 40, 90, 20}, none{0, 0, 0, 0};
  REQUIRE(timeline["ms"].get<std::vector<double>>() == ms);
  const auto bytes = [&](const char* category) {
    return timeline["bytes"][category].get<std::vector<int>>();
  };
  REQUIRE(bytes("parameters") == parameters);
  REQUIRE(bytes("activations") == activations);
  REQUIRE(bytes("gradients") == none);
  const Json& phases = timeline["phases"];
  REQUIRE(phases.size() == 3);
  REQUIRE(phases[0]["name"] == "forward");
  REQUIRE(phases[0]["bytes"]["activations"] == 40);
  REQUIRE(phases[1]["start_ms"] == 1.0);
  REQUIRE(phases[1]["duration_ms"] == 1.0);
  REQUIRE(phases[1]["bytes"]["activations"] == 90);
  // The activations alive when this phase began.
  REQUIRE(phases[2]["bytes"]["activations"] == 20);
}

TEST_CASE("a thinned timeline keeps the peak", "[report]") {
  std::vector<Json> events{phase("forward", 0, 10'000, 0), phase("step", 10'000, 10, 0)};
  for (int i = 0; i < 10'000; ++i) events.push_back(change(i, 1, i == 7777 ? 999 : i % 100));
  const Json timeline = window_timeline(trace_of(std::move(events)), 50);
  REQUIRE(timeline["ms"].size() <= 100);
  REQUIRE(timeline["ms"].size() >= 50);
  REQUIRE(timeline["peak_bytes"] == 1000);
  const auto activations = timeline["bytes"]["activations"].get<std::vector<int>>();
  REQUIRE(std::ranges::max(activations) == 999);
  const auto ms = timeline["ms"].get<std::vector<double>>();
  REQUIRE(std::ranges::is_sorted(ms));
}

TEST_CASE("a trace without a window is refused", "[report]") {
  REQUIRE_ERROR(window_timeline(trace_of({change(0, 1, 1), phase("forward", 0, 1, 0)})),
                "no window that ends with a step");
}

}  // namespace accrue::test
