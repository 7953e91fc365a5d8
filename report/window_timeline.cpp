#include "report/window_timeline.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/error.h"
#include "train/json.h"

namespace accrue {
namespace {

struct Change {
  double us;
  Usage usage;
};

struct PhaseSpan {
  std::string name;
  int64_t step, micro_batch;
  double us, duration_us;
  double end_us() const { return us + duration_us; }
};

std::vector<Change> changes_of(const nlohmann::json& trace) {
  std::vector<Change> changes;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("name") != "memory") continue;
    Change change{event.at("ts"), {}};
    for (Category c : all_categories)
      change.usage[c] = event.at("args").value(std::string(name(c)), size_t{0});
    changes.push_back(change);
  }
  return changes;
}

std::vector<PhaseSpan> phases_of(const nlohmann::json& trace) {
  std::vector<PhaseSpan> phases;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const auto& args = event.at("args");
    PhaseSpan phase{event.at("name"), args.at("step"), args.at("micro_batch"), event.at("ts"),
                    event.at("dur")};
    if (phase.name == "forward" || phase.name == "backward" || phase.name == "step")
      phases.push_back(std::move(phase));
  }
  std::ranges::stable_sort(phases, {}, &PhaseSpan::us);
  return phases;
}

std::vector<PhaseSpan> last_whole_window(const nlohmann::json& trace) {
  std::vector<PhaseSpan> phases = phases_of(trace);
  int64_t last = -1;
  for (const PhaseSpan& phase : phases)
    if (phase.name == "step") last = std::max(last, phase.step);
  check(last >= 0, "the memory trace has no window that ends with a step: expected at least one");
  std::erase_if(phases, [&](const PhaseSpan& phase) { return phase.step != last; });
  return phases;
}

// The changes in [begin, end). The first is at `begin`, with the bytes that were alive then.
std::vector<Change> between(const std::vector<Change>& changes, double begin, double end) {
  const auto after_begin = std::ranges::upper_bound(changes, begin, {}, &Change::us);
  std::vector<Change> part{{begin, {}}};
  if (after_begin != changes.begin()) part[0].usage = std::prev(after_begin)->usage;
  const auto stop = std::ranges::lower_bound(changes, end, {}, &Change::us);
  if (after_begin < stop) part.insert(part.end(), after_begin, stop);
  return part;
}

const Change& highest(const std::vector<Change>& changes) {
  return *std::ranges::max_element(changes, {},
                                   [](const Change& change) { return change.usage.total(); });
}

std::vector<Change> thinned(const std::vector<Change>& changes, double end_us, size_t points) {
  const double begin = changes.front().us;
  const auto stretch_of = [&](const Change& change) {
    return static_cast<size_t>((change.us - begin) / (end_us - begin) * double(points));
  };
  std::vector<Change> kept;
  for (auto first = changes.begin(); first != changes.end();) {
    const auto last = std::find_if(
        first, changes.end(), [&](const Change& c) { return stretch_of(c) != stretch_of(*first); });
    const std::vector<Change> stretch(first, last);
    const Change& top = highest(stretch);
    kept.push_back(top);
    if (&top != &stretch.back()) kept.push_back(stretch.back());
    first = last;
  }
  return kept;
}

}  // namespace

nlohmann::ordered_json window_timeline(const nlohmann::json& trace, size_t points) {
  const std::vector<Change> all = changes_of(trace);
  const std::vector<PhaseSpan> phases = last_whole_window(trace);
  const double begin = phases.front().us;
  const double end = std::ranges::max(phases, {}, &PhaseSpan::end_us).end_us();
  const std::vector<Change> window = between(all, begin, end);
  const auto ms = [&](double us) { return (us - begin) / 1000; };

  nlohmann::ordered_json json{{"duration_ms", ms(end)},
                              {"peak_bytes", highest(window).usage.total()}};
  for (const Change& change : thinned(window, end, points)) {
    json["ms"].push_back(ms(change.us));
    for (Category c : all_categories)
      json["bytes"][std::string(name(c))].push_back(change.usage[c]);
  }
  for (const PhaseSpan& phase : phases)
    json["phases"].push_back(
        {{"name", phase.name},
         {"micro_batch", phase.micro_batch},
         {"start_ms", ms(phase.us)},
         {"duration_ms", phase.duration_us / 1000},
         {"bytes", by_category(highest(between(window, phase.us, phase.end_us())).usage)}});
  return json;
}

}  // namespace accrue
