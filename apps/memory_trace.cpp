#include "apps/memory_trace.h"

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>

#include "apps/usage_json.h"
#include "data/atomic_file.h"

namespace accrue::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int process = 1, phase_track = 1, allocation_track = 2;

// A clock of nanoseconds.
double rounded(double us) { return std::round(us * 1000) / 1000; }

Json counter(double us, const Usage& usage) {
  return {{"name", "memory"},
          {"ph", "C"},
          {"ts", rounded(us)},
          {"pid", process},
          {"args", by_category(usage)}};
}

Json phase(const Timeline::Span& span) {
  return {{"name", name(span.phase)},
          {"cat", "phase"},
          {"ph", "X"},
          {"ts", rounded(span.begin.us)},
          {"dur", rounded(span.end_us - span.begin.us)},
          {"pid", process},
          {"tid", phase_track},
          {"args", {{"step", span.begin.step}, {"micro_batch", span.begin.micro_batch}}}};
}

Json allocation(const Timeline::Change& change) {
  const AllocationInfo& info = change.allocation;
  return {{"name", info.name()},
          {"cat", name(info.category)},
          {"ph", "i"},
          {"s", "p"},
          {"ts", rounded(change.at.us)},
          {"pid", process},
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

Json naming(const char* what, int track, const char* text) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", text}}}};
}

Json about(const TrainOptions& options, std::optional<Batches> batches, Device device) {
  Json other{{"command", "train"},
             {"model", name(options.model.kind)},
             {"data", options.data_name()},
             {"device", name(device)},
             {"strategy", name_in(strategy_names(), options.strategy)},
             {"recompute", name_in(recompute_names(), options.recompute)},
             {"optimizer", name_in(optimizer_names(), options.optimizer)},
             {"windows", options.memory_trace_windows}};
  if (batches) {
    other["batches"] = batches->describe();
    other["micro_batch"] = batches->micro;
    other["effective_batch"] = batches->effective;
  }
  for (Category c : all_categories) other["categories"].push_back(name(c));
  return other;
}

// One event a line.
class Events {
 public:
  void add(const Json& event) { text_ += (text_.empty() ? "" : ",\n") + event.dump(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

MemoryTrace::MemoryTrace(const TrainOptions& options, Device device)
    : options_(options),
      device_(device),
      timeline_(device, options.memory_trace_windows),
      exceptions_before_(std::uncaught_exceptions()) {
  AtomicFile{options.memory_trace};
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
  Events events;
  events.add(naming("process_name", 0, "accrue train"));
  events.add(naming("thread_name", phase_track, "phases"));
  events.add(naming("thread_name", allocation_track, "allocations"));
  for (const Timeline::Span& span : timeline_.spans()) events.add(phase(span));
  Usage usage = timeline_.initial();
  events.add(counter(0, usage));
  for (const Timeline::Change& change : timeline_.changes()) {
    size_t& bytes = usage[change.allocation.category];
    if (change.event == Timeline::Event::allocate) bytes += change.allocation.bytes;
    else bytes -= change.allocation.bytes;
    events.add(allocation(change));
    events.add(counter(change.at.us, usage));
  }
  write_text_atomically(
      options_.memory_trace,
      fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
                  about(options_, batches, device_).dump(), events.text()));
}

}  // namespace accrue::app
