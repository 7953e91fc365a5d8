#include "train/tensorboard/event_file.h"

#include <tensorboard/event.pb.h>
#include <unistd.h>

#include <array>
#include <charconv>
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

// TensorBoard reads the files of a directory in the order of their names.
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

proto::SessionStartInfo::HParam hparam(const std::string& text) {
  proto::SessionStartInfo::HParam value;
  double number = 0;
  const char* const end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && stop == end)
    value.set_number_value(number);
  else value.set_string_value(text);
  return value;
}

std::vector<std::string> hyperparameters_in(const proto::Summary::Value& value) {
  proto::HParamsPluginData data;
  std::vector<std::string> names;
  if (value.metadata().plugin_data().plugin_name() == "hparams" &&
      data.ParseFromString(value.metadata().plugin_data().content()))
    for (const auto& [name, ignored] : data.session_start_info().hparams()) names.push_back(name);
  return names;
}

Histogram from(const proto::HistogramProto& in) {
  Histogram histogram{in.min(), in.max(), in.num(), in.sum(), in.sum_squares(), {}};
  for (int i = 0; i < in.bucket_size(); ++i)
    histogram.buckets.push_back({in.bucket_limit(i), in.bucket(i)});
  return histogram;
}

}  // namespace

void require_event_files() {}

EventFile::EventFile(const std::filesystem::path& directory, int64_t first_step, Describe describe)
    : file_(new_file(directory), AppendFile::Existing::refused), describe_(std::move(describe)) {
  proto::Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  append(file_, version);
  if (first_step == 0) return;
  proto::Event start = event_at(first_step);
  start.mutable_session_log()->set_status(proto::SessionLog::START);
  append(file_, start);
}

void EventFile::add_hyperparameters(const Tagged<std::string>& values) {
  proto::Event event = event_at(0);
  proto::HParamsPluginData data;
  data.mutable_session_start_info()->set_start_time_secs(event.wall_time());
  for (const auto& [name, text] : values)
    (*data.mutable_session_start_info()->mutable_hparams())[name] = hparam(text);
  proto::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag("_hparams_/session_start_info");
  entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  entry.mutable_metadata()->mutable_plugin_data()->set_content(data.SerializeAsString());
  // TensorBoard ignores a value without a tensor, so this adds an empty one of floats.
  entry.mutable_tensor()->set_dtype(1);
  entry.mutable_tensor()->mutable_tensor_shape()->add_dim();
  append(file_, event);
}

void EventFile::add(int64_t step, const Tagged<double>& scalars,
                    const Tagged<Histogram>& histograms) {
  proto::Event event = event_at(step);
  const auto add_value = [&](const std::string& tag, const char* plugin) -> proto::Summary::Value& {
    proto::Summary::Value& entry = *event.mutable_summary()->add_value();
    entry.set_tag(tag);
    if (describe_ && described_.insert(tag).second) {
      entry.mutable_metadata()->set_summary_description(describe_(tag));
      entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
    }
    return entry;
  };
  for (const auto& [tag, value] : scalars)
    add_value(tag, "scalars").set_simple_value(static_cast<float>(value));
  for (const auto& [tag, histogram] : histograms)
    fill(*add_value(tag, "histograms").mutable_histo(), histogram);
  append(file_, event);
}

void EventFile::add_picture(int64_t step, const std::string& tag, const GrayImage& image) {
  proto::Event event = event_at(step);
  proto::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(tag);
  if (describe_ && described_.insert(tag).second) {
    entry.mutable_metadata()->set_summary_description(describe_(tag));
    entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("images");
  }
  entry.mutable_image()->set_height(static_cast<int32_t>(image.height));
  entry.mutable_image()->set_width(static_cast<int32_t>(image.width));
  entry.mutable_image()->set_colorspace(1);
  entry.mutable_image()->set_encoded_image_string(encode_png(image));
  append(file_, event);
}

void EventFile::add_text(int64_t step, const std::string& tag, const std::string& text) {
  proto::Event event = event_at(step);
  proto::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(tag);
  // This name alone makes TensorBoard show the tensor as text.
  entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  if (describe_) entry.mutable_metadata()->set_summary_description(describe_(tag));
  entry.mutable_tensor()->set_dtype(7);
  entry.mutable_tensor()->mutable_tensor_shape();
  entry.mutable_tensor()->add_string_val(text);
  append(file_, event);
}

std::vector<Event> read_events(const std::filesystem::path& path) {
  std::vector<Event> events;
  for (const std::string& record : read_records(path).whole) {
    proto::Event message;
    check(message.ParseFromString(record), "{}: record {} is not an event of TensorBoard's",
          path.string(), events.size());
    Event event{message.step(), {}, {}};
    for (const proto::Summary::Value& value : message.summary().value()) {
      if (value.has_histo()) event.histograms.emplace_back(value.tag(), from(value.histo()));
      else if (value.has_image())
        event.images.emplace_back(value.tag(), value.image().encoded_image_string());
      else if (value.tensor().string_val_size() > 0)
        event.texts.emplace_back(value.tag(), value.tensor().string_val(0));
      else if (value.has_tensor()) event.hyperparameters = hyperparameters_in(value);
      else event.scalars.emplace_back(value.tag(), value.simple_value());
      if (const std::string& text = value.metadata().summary_description(); !text.empty())
        event.descriptions.emplace_back(value.tag(), text);
    }
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace accrue
