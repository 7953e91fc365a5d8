#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

// Writes a file of Chrome's trace events: one event per line, in one process.
class TraceEvents {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr int process = 1;

  explicit TraceEvents(const char* process_name) { add(naming("process_name", 0, process_name)); }
  void name_track(int track, const char* name) { add(naming("thread_name", track, name)); }
  void add(const Json& event) { text_ += (text_.empty() ? "" : ",\n") + event.dump(); }
  // A span of time on a track.
  void add_span(int track, std::string_view name, std::string_view category, double begin_us,
                double end_us, Json args) {
    add({{"name", name},
         {"cat", category},
         {"ph", "X"},
         {"ts", rounded(begin_us)},
         {"dur", rounded(end_us - begin_us)},
         {"pid", process},
         {"tid", track},
         {"args", std::move(args)}});
  }
  // The contents of the file: the events, and `about`, which describes the run.
  std::string text(const Json& about) const {
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
                       about.dump(), text_);
  }

  // Rounds to nanoseconds.
  static double rounded(double us) { return std::round(us * 1000) / 1000; }

 private:
  static Json naming(const char* what, int track, const char* text) {
    return {
        {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", text}}}};
  }

  std::string text_;
};

}  // namespace accrue
