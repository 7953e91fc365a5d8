#include "train/tensorboard/event_file.h"

#include <tensorboard/event.pb.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "core/error.h"
#include "data/record_file.h"

namespace accrue {
namespace {

namespace proto = accrue::tensorboard;

proto::Event event_at(int64_t step) {
  proto::Event event;
  event.set_wall_time(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  event.set_step(step);
  return event;
}

void append(AppendFile& file, const proto::Event& event) {
  append_record(file, event.SerializeAsString());
}

// TensorBoard takes the files of a directory in the order of their names.
std::filesystem::path new_file(const std::filesystem::path& directory) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return directory / fmt::format("events.out.tfevents.{:010}.{:09}.{}.{}", ns / 1'000'000'000,
                                 ns % 1'000'000'000, host.data(), ::getpid());
}

void fill(proto::HistogramProto& out, const Histogram& histogram) {
  out.set_min(histogram.min);
  out.set_max(histogram.max);
  out.set_num(histogram.count);
  out.set_sum(histogram.sum);
  out.set_sum_squares(histogram.sum_squares);
  for (const auto& [limit, count] : histogram.buckets) {
    out.add_bucket_limit(limit);
    out.add_bucket(count);
  }
}

Histogram from(const proto::HistogramProto& in) {
  Histogram histogram{in.min(), in.max(), in.num(), in.sum(), in.sum_squares(), {}};
  for (int i = 0; i < in.bucket_size(); ++i)
    histogram.buckets.push_back({in.bucket_limit(i), in.bucket(i)});
  return histogram;
}

}  // namespace

void require_event_files() {}

EventFile::EventFile(const std::filesystem::path& directory, int64_t first_step)
    : file_(new_file(directory), AppendFile::Existing::refused) {
  proto::Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  append(file_, version);
  if (first_step == 0) return;
  proto::Event start = event_at(first_step);
  start.mutable_session_log()->set_status(proto::SessionLog::START);
  append(file_, start);
}

void EventFile::add(int64_t step, const Tagged<double>& scalars,
                    const Tagged<Histogram>& histograms) {
  proto::Event event = event_at(step);
  proto::Summary& summary = *event.mutable_summary();
  for (const auto& [tag, value] : scalars) {
    proto::Summary::Value& entry = *summary.add_value();
    entry.set_tag(tag);
    entry.set_simple_value(static_cast<float>(value));
  }
  for (const auto& [tag, histogram] : histograms) {
    proto::Summary::Value& entry = *summary.add_value();
    entry.set_tag(tag);
    fill(*entry.mutable_histo(), histogram);
  }
  append(file_, event);
}

std::vector<Event> read_events(const std::filesystem::path& path) {
  std::vector<Event> events;
  for (const std::string& record : read_records(path).whole) {
    proto::Event message;
    check(message.ParseFromString(record), "{}: record {} is not an event of TensorBoard's",
          path.string(), events.size());
    Event event{message.step(), {}, {}};
    for (const proto::Summary::Value& value : message.summary().value())
      if (value.has_histo()) event.histograms.emplace_back(value.tag(), from(value.histo()));
      else event.scalars.emplace_back(value.tag(), value.simple_value());
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace accrue
