#include "apps/memory_trace.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "apps/trace_events.h"
#include "apps/usage_json.h"
#include "data/atomic_file.h"

namespace accrue::app {
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

Json about(const TrainOptions& options, std::optional<Batches> batches, Device device) {
  Json other = about_run(options, batches, device);
  other["windows"] = options.memory_trace_windows;
  for (Category c : all_categories) other["categories"].push_back(name(c));
  return other;
}

}  // namespace

MemoryTrace::MemoryTrace(const TrainOptions& options, Device device)
    : options_(options),
      device_(device),
      timeline_(device, options.memory_trace_windows),
      exceptions_before_(std::uncaught_exceptions()) {
  check_writable(options.memory_trace);
}

MemoryTrace::~MemoryTrace() {
  if (written_ || std::uncaught_exceptions() == exceptions_before_) return;
  try {
    write(std::nullopt);
    fmt::print(stderr, "recorded the memory up to the error: {}\n", options_.memory_trace);
  } catch (const std::exception&) {
    // The error that is under way says more.
  }
}

void MemoryTrace::write(std::optional<Batches> batches) {
  written_ = true;
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
  write_text_atomically(options_.memory_trace, events.text(about(options_, batches, device_)));
}

}  // namespace accrue::app
