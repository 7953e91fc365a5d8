#include "train/memory_trace.h"

#include <nlohmann/json.hpp>

#include "train/json.h"
#include "train/trace_events.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr int phase_track = 1, allocation_track = 2;

Json counter(double us, const Usage& usage) {
  return {{"name", "memory"},
          {"ph", "C"},
          {"ts", TraceEvents::rounded(us)},
          {"pid", TraceEvents::process},
          {"args", by_category(usage)}};
}

Json allocation(const Timeline::Change& change) {
  const AllocationInfo& info = change.allocation;
  return {{"name", info.name()},
          {"cat", name(info.category)},
          {"ph", "i"},
          {"s", "p"},
          {"ts", TraceEvents::rounded(change.at.us)},
          {"pid", TraceEvents::process},
          {"tid", allocation_track},
          {"args",
           {{"event", change.event == Timeline::Event::allocate ? "allocate" : "free"},
            {"bytes", info.bytes},
            {"shape", info.type()},
            {"phase", name(info.phase)},
            {"step", change.at.step},
            {"micro_batch", change.at.micro_batch},
            {"id", info.number}}}};
}

}  // namespace

MemoryTrace::MemoryTrace(int64_t windows, int64_t steps, Device device, std::string about)
    : about_(std::move(about)), windows_(windows), timeline_(device, steps) {}

std::string MemoryTrace::text(const std::string& more) {
  timeline_.stop();
  TraceEvents events("accrue train");
  events.name_track(phase_track, "phases");
  events.name_track(allocation_track, "allocations");
  for (const Timeline::Span& span : timeline_.spans())
    events.add_span(phase_track, name(span.phase), "phase", span.begin.us, span.end_us,
                    {{"step", span.begin.step}, {"micro_batch", span.begin.micro_batch}});
  Usage usage = timeline_.initial();
  events.add(counter(0, usage));
  for (const Timeline::Change& change : timeline_.changes()) {
    size_t& bytes = usage[change.allocation.category];
    if (change.event == Timeline::Event::allocate) bytes += change.allocation.bytes;
    else bytes -= change.allocation.bytes;
    events.add(allocation(change));
    events.add(counter(change.at.us, usage));
  }
  Json about = Json::parse(about_);
  about.update(Json::parse(more));
  about["windows"] = windows_;
  for (Category c : all_categories) about["categories"].push_back(name(c));
  return events.text(about);
}

}  // namespace accrue
