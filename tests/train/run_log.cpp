// The files that --log-dir writes, read by our own reader and by TensorBoard's.

#include "train/run_log.h"

#include <algorithm>
#include <csignal>
#include <set>

#include "data/record_file.h"
#include "tests/support/child.h"
#include "train/tensorboard/event_file.h"

namespace accrue::test {
namespace {

std::string event_file(const std::string& directory) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      found = std::max(found, entry.path().string());
  REQUIRE(!found.empty());
  return found;
}

double scalar(const Event& event, const std::string& tag) {
  for (const auto& [name, value] : event.scalars)
    if (name == tag) return value;
  FAIL("no scalar " << tag << " at step " << event.step);
  return 0;
}

void flip_bit(const std::string& path, size_t byte) {
  std::string bytes = file_bytes(path);
  bytes[byte] = static_cast<char>(bytes[byte] ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

bool without_protobuf() {
  try {
    require_event_files();
    return false;
  } catch (const Error&) {
    WARN("built without protobuf: no log to be read");
    return true;
  }
}

const std::string small = "train --model mlp-small --threads 1 --steps 6 --log-dir ";

}  // namespace

TEST_CASE("checksums of record files are CRC-32C's", "[data]") {
  // The check value from the catalogue of CRC algorithms, and values from RFC 3720, B.4.
  REQUIRE(crc32c("123456789") == 0xe3069283);
  REQUIRE(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  REQUIRE(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  // TensorBoard computes this from the length of its first record, 24.
  REQUIRE(masked_crc32c(std::string("\x18\0\0\0\0\0\0\0", 8)) == 0x224b7fa3);
}

TEST_CASE("records are read as they were written, up to one that is torn", "[data]") {
  const Folder folder;
  const fs::path path = folder / "records";
  const std::vector<std::string> written{"", "one", std::string(100'000, 'x')};
  {
    AppendFile file(path, AppendFile::Existing::refused);
    for (const std::string& record : written) append_record(file, record);
  }
  REQUIRE(read_records(path).whole == written);
  REQUIRE_ERROR(AppendFile(path, AppendFile::Existing::refused), "File exists");
  const std::string bytes = file_bytes(path.string());
  // If the file is cut off anywhere, all records before the cut are read.
  for (const size_t cut : {bytes.size() - 1, bytes.size() - 100'000, size_t{40}, size_t{5}}) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, cut);
    const Records records = read_records(path);
    REQUIRE(records.whole.size() == (cut > 40 ? 2u : cut > 35 ? 2u : 0u));
    REQUIRE(records.torn_bytes == cut - (cut > 35 ? 35 : 0));
  }
  // Every single byte counts.
  for (const size_t byte : {size_t{0}, size_t{9}, size_t{13}, size_t{28}, size_t{33}}) {
    std::ofstream(path, std::ios::binary) << bytes;
    flip_bit(path.string(), byte);
    REQUIRE_ERROR(read_records(path), "does not fit its checksum");
  }
  REQUIRE_ERROR(AppendFile(folder / "no/file", AppendFile::Existing::refused), "No such file");
}

TEST_CASE("an error about a full disk names the file that grows", "[.full-disk]") {
  if (!fs::exists("/dev/full")) return;
  AppendFile file("/dev/full", AppendFile::Existing::continued);
  REQUIRE_ERROR(append_record(file, "one"), "cannot append to '/dev/full': No space left");
}

TEST_CASE("a histogram counts in TensorBoard's buckets", "[output]") {
  const std::vector<float> values{-2, -1, 0, 0, 0.5f, 3, std::nanf("")};
  const Histogram histogram = histogram_of(values, 2);
  REQUIRE(histogram.min == -4);
  REQUIRE(histogram.max == 6);
  REQUIRE(histogram.count == 6);
  REQUIRE(histogram.sum == 1);
  REQUIRE(histogram.sum_squares == 16 + 4 + 1 + 36);
  double counted = 0, below = -std::numeric_limits<double>::max();
  for (const auto& [limit, count] : histogram.buckets) {
    REQUIRE(limit > below);
    double expected = 0;
    for (const float v : values) expected += 2 * v >= below && 2 * v < limit;
    REQUIRE(count == expected);
    // A bucket with values is 10 % wide, except the one that begins at 0.
    if (count > 0 && limit > 1e-11) REQUIRE(std::abs(limit / below - 1.1) < 1e-9);
    counted += count;
    below = limit;
  }
  REQUIRE(counted == 6);
  REQUIRE(histogram_of({}, 1).buckets.size() == 1);
}

TEST_CASE("--log-dir holds every step, the scores and a summary", "[cli]") {
  if (without_protobuf()) return;
  const Folder folder;
  const std::string log = folder / "runs/a", json = folder / "a.jsonl";
  succeed(small + log + " --log-histograms 3 --ema 0.9 --json " + json);
  REQUIRE(file_bytes(log + "/metrics.jsonl") == file_bytes(json));
  const auto lines = json_lines(json);
  const auto events = read_events(event_file(log));
  // The events are the version, the hyperparameters, six steps, two histograms and the scores.
  REQUIRE(events.size() == 2 + 6 + 2 + 1);
  const std::vector<std::string>& hyperparameters = events[1].hyperparameters;
  for (const char* name : {"model", "lr", "micro-batch", "seed"})
    REQUIRE(std::ranges::count(hyperparameters, name) == 1);
  for (const char* name : {"log-dir", "json", "checkpoint-every"})
    REQUIRE(std::ranges::count(hyperparameters, name) == 0);
  std::set<std::string> tags, described;
  for (const Event& event : events) {
    for (const auto& [tag, value] : event.scalars) tags.insert(tag);
    for (const auto& [tag, value] : event.histograms) tags.insert(tag);
    for (const auto& [tag, text] : event.descriptions) REQUIRE(described.insert(tag).second);
  }
  REQUIRE(tags == described);
  size_t steps = 0;
  std::vector<int64_t> with_histograms;
  for (const Event& event : events) {
    if (!event.histograms.empty()) {
      with_histograms.push_back(event.step);
      REQUIRE(event.histograms.size() == 4);
      REQUIRE(event.histograms[0].first == "gradients/0.weight");
      REQUIRE(event.histograms[0].second.count == 784 * 256);
      // The sum of all parameters' squared gradients is the squared norm: 203,530 terms in float32.
      double squares = 0;
      for (const auto& [name, histogram] : event.histograms) squares += histogram.sum_squares;
      const double norm = lines[static_cast<size_t>(event.step - 1)]["grad_norm"];
      REQUIRE(std::sqrt(squares) == Approx(norm).epsilon(1e-5));
    } else if (!event.scalars.empty() && steps < 6) {
      const auto& line = lines[steps++];
      REQUIRE(event.step == line["step"]);
      REQUIRE(scalar(event, "train/loss") == float(double(line["loss"])));
      REQUIRE(scalar(event, "peak_bytes/total") == float(double(line["peak_bytes"]["total"])));
      for (const char* category : {"parameters", "gradients", "optimizer", "data"})
        REQUIRE(line["in_use_bytes"][category] == line["peak_bytes"][category]);
      // Between two windows no activations are alive.
      REQUIRE(scalar(event, "in_use_bytes/activations") == 0);
    }
  }
  const std::vector<int64_t> turns{3, 6};
  REQUIRE(with_histograms == turns);
  REQUIRE(scalar(events.back(), "test/accuracy") ==
          float(double(lines.back()["test"]["accuracy"])));
  REQUIRE(scalar(events.back(), "test_ema/loss") ==
          float(double(lines.back()["test_ema"]["loss"])));
  const auto summary = nlohmann::json::parse(file_bytes(log + "/summary.json"));
  REQUIRE(summary["status"] == "finished");
  REQUIRE(summary["steps"] == 6);
  REQUIRE(summary["test"] == lines.back()["test"]);
  REQUIRE(summary["settings"]["--model"] == "mlp-small");
  REQUIRE(summary["settings"]["--ema"] == "0.9");
  REQUIRE(summary["settings"]["--micro-batch"] == "16");
  REQUIRE(!summary["settings"].contains("--log-dir"));
  REQUIRE(summary["environment"]["device"] == name(test_device()));
  REQUIRE(summary["peak_bytes"]["total"] == lines[5]["peak_bytes"]["total"]);
}

TEST_CASE("a build without protobuf says what --log-dir needs", "[output]") {
  const Folder folder;
  if (without_protobuf()) refuse(small + (folder / "run"), "install the packages libprotobuf-dev");
}

TEST_CASE("a log that cannot be kept is refused before training", "[output]") {
  if (without_protobuf() || test_device() != Device::cpu) return;  // the files are the host's
  const Folder folder;
  write(folder / "file", {});
  refuse(small + (folder / "file"), "expected a directory to write a log to");
  refuse(small + (folder / "file/below"), "expected a directory to write a log to");
  succeed(small + (folder / "run"));
  refuse(small + (folder / "run"), "holds the log of another run");
  refuse(small + (folder / "other") + " --strategy moments --log-histograms 2",
         "does not keep: expected fused");
  REQUIRE(!fs::exists(folder / "other/metrics.jsonl"));
  refuse("train --log-histograms 2 --steps 1", "--log-dir");
}

TEST_CASE("the gradients of a log are those the step used", "[cli][full]") {
  if (without_protobuf()) return;
  const Folder folder;
  for (const std::string strategy : {"fused", "bf16-sum"}) {
    succeed(small + (folder / strategy) + " --clip-norm 0.01 --loss-scale 8 --log-histograms 6" +
            " --strategy " + strategy);
    double squares = 0;
    for (const Event& event : read_events(event_file(folder / strategy)))
      for (const auto& [name, histogram] : event.histograms) squares += histogram.sum_squares;
    REQUIRE(std::sqrt(squares) == Approx(0.01).epsilon(1e-5));
  }
}

TEST_CASE("a run that goes on starts a new event file", "[cli][full]") {
  if (without_protobuf()) return;
  const Folder folder;
  const fs::path directory = folder / "log";
  fs::create_directories(directory);
  EventFile(directory, 0).add(1, {{"x", 1.0}});
  const std::string first = event_file(directory.string());
  EventFile(directory, 5).add(6, {{"x", 2.0}});
  const std::string second = event_file(directory.string());
  REQUIRE(first < second);
  const auto events = read_events(second);
  REQUIRE(events.size() == 3);
  REQUIRE(events[1].step == 5);
  REQUIRE(scalar(events[2], "x") == 2);
}

TEST_CASE("the log of a run that is resumed goes on where the checkpoint was", "[cli][full]") {
  if (without_protobuf() || test_device() != Device::cpu) return;  // the files are the host's
  const Folder folder;
  const std::string log = folder / "log";
  const auto train = [&](int steps, const std::string& more) {
    succeed(
        fmt::format("train --model mlp-small --threads 1 --steps {} --log-dir {} "
                    "--checkpoint-dir {} {}",
                    steps, log, folder / "checkpoints", more));
  };
  train(4, "");
  train(6, "--resume");
  std::vector<int64_t> logged;
  for (const auto& line : json_steps(log + "/metrics.jsonl")) logged.push_back(line["step"]);
  const std::vector<int64_t> all{1, 2, 3, 4, 5, 6}, resumed{0, 5, 0, 5, 6, 6};
  REQUIRE(logged == all);
  // The events are the version, the mark that makes later steps void, the hyperparameters, two
  // steps and their score.
  std::vector<int64_t> events;
  for (const Event& event : read_events(event_file(log))) events.push_back(event.step);
  REQUIRE(events == resumed);
  REQUIRE(nlohmann::json::parse(file_bytes(log + "/summary.json"))["steps"] == 6);
}

TEST_CASE("a log survives its run being killed", "[cli][full]") {
  if (without_protobuf()) return;
  const Folder folder;
  const std::string log = folder / "run";
  const auto lines_written = [&] {
    const std::string path = log + "/metrics.jsonl";
    if (!fs::exists(path)) return std::ptrdiff_t(0);
    const std::string bytes = file_bytes(path);
    return std::ranges::count(bytes, '\n');
  };
  for (int attempt = 0; attempt < 3; ++attempt) {
    fs::remove_all(log);
    Child child("train --model mlp-small --threads 1 --epochs 100000 --log-dir " + log,
                folder / "text");
    child.wait_until(
        [&] { return lines_written() > (computes_slowly() ? 10 : 100) * attempt + 1; });
    child.send(SIGKILL);
    REQUIRE(child.wait() == 128 + SIGKILL);
    INFO(child.text());
    const auto events = read_events(event_file(log));
    const auto lines = json_lines(log + "/metrics.jsonl");
    REQUIRE(events.size() > 2);
    REQUIRE(lines.size() + 2 - events.size() <= 1);
    REQUIRE(!fs::exists(log + "/summary.json"));
  }
}

}  // namespace accrue::test
