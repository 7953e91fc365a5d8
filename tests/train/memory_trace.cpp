// The files of train --memory-trace, read as a viewer or the report does.

#include "train/memory_trace.h"

#include <sys/wait.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "train/training.h"

namespace accrue::test {
namespace {

using Json = nlohmann::json;

int train(const std::string& arguments, const std::filesystem::path& output) {
  const std::string command = fmt::format("{} train --device {} {} > {} 2>&1", program_path,
                                          name(test_device()), arguments, output.string());
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int64_t total(const Json& counter) {
  int64_t sum = 0;
  for (const Json& bytes : counter["args"]) sum += bytes.get<int64_t>();
  return sum;
}

std::vector<Json> events(const Json& trace, const std::string& kind) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == kind) found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("a trace has what happened to the memory, to the byte", "[pitfalls][memory]") {
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::cnn_bn});
  options.cuda_graphs = Graphs::off;
  options.batches = {2, 5};
  MemoryTrace recording(2, 2, test_device(), "{\"model\": \"cnn-bn\", \"batches\": \"unknown\"}");
  const Dataset data = make_digits(Split::train, {.train_size = 10}).to(test_device());
  Training training(options, data, test_device());
  ledger(test_device()).reset_peak();
  training.loader().start_epoch(0);
  while (const MicroBatch* micro_batch = training.loader().next()) {
    training.micro_step(*micro_batch, 0);
    if (micro_batch->ends_window) training.window().enqueue_step();
  }
  const auto peak = static_cast<int64_t>(ledger(test_device()).peak().total());
  const Json trace = Json::parse(recording.text("{\"batches\": \"whole\"}"));
  REQUIRE(trace["displayTimeUnit"] == "ms");
  REQUIRE(trace["otherData"]["model"] == "cnn-bn");
  REQUIRE(trace["otherData"]["batches"] == "whole");
  REQUIRE(trace["otherData"]["windows"] == 2);

  // Counters are not negative, and agree with the allocations between them.
  const auto spans = events(trace, "X");
  const auto forward = std::ranges::find(spans, "forward", [](const Json& e) { return e["name"]; });
  REQUIRE(forward != spans.end());
  const double first_forward = (*forward)["ts"];
  const int64_t before = total(events(trace, "C").front());
  std::map<int64_t, int64_t> alive;
  int64_t highest = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "i") {
      const Json& args = event["args"];
      if (args["event"] == "allocate") alive[args["id"]] = args["bytes"];
      else REQUIRE(alive.erase(args["id"].get<int64_t>()) == 1);
    }
    if (event["ph"] != "C") continue;
    REQUIRE(event["args"].size() == 6);
    for (const Json& bytes : event["args"]) REQUIRE(bytes.get<int64_t>() >= 0);
    int64_t sum = before;
    for (const auto& [id, bytes] : alive) sum += bytes;
    REQUIRE(total(event) == sum);
    if (event["ts"].get<double>() >= first_forward) highest = std::max(highest, total(event));
  }
  REQUIRE(highest == peak);

  std::string story;
  for (const Json& span : spans)
    story += fmt::format("{} {}.{}|", span["name"].get<std::string>(),
                         span["args"]["step"].get<int>(), span["args"]["micro_batch"].get<int>());
  REQUIRE(
      story.starts_with("setup 0.0|data 0.0|data 0.0|forward 0.0|backward 0.0|data 0.1|forward "
                        "0.1|backward 0.1|data 0.2|forward 0.2|backward 0.2|step 0.3|data 1.0|"));
  REQUIRE(story.ends_with("step 1.3|"));
  const auto conv = std::ranges::count_if(events(trace, "i"), [](const Json& e) {
    return e["name"] == "0 conv 3x3 1 -> 16, stride 1, padding 1" && e["cat"] == "activations" &&
           e["args"]["phase"] == "forward" && e["args"]["event"] == "allocate" &&
           e["args"]["shape"] == "f32 [2, 16, 28, 28]";
  });
  REQUIRE(conv == 4);  // two windows of two whole micro-batches
}

TEST_CASE("a run that fails for want of memory leaves its trace", "[cli][memory][full]") {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "trace").string();
  // On cuda the data stays on the host here, and a convolution's scratch is 4 MiB.
  const std::string limit = test_device() == Device::cuda ? "6MB" : "14MB";
  REQUIRE(train("--model cnn --micro-batch 32 --memory-limit " + limit + " --memory-trace " + file,
                folder.path() / "output") == 1);
  REQUIRE_THAT(read_file((folder.path() / "output").string()),
               ContainsSubstring("recorded the memory up to the error: " + file));
  const Json trace = Json::parse(read_file(file));
  REQUIRE(trace["otherData"]["model"] == "cnn");
  REQUIRE(events(trace, "C").size() > 10);
}

TEST_CASE("a trace ends with its windows, and needs a file", "[cli][memory][full]") {
  const TemporaryDirectory folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(train("--model mlp-small --micro-batch 4 --accum 1 --steps 3 --memory-trace-windows 1 "
                "--memory-trace " +
                    file("trace"),
                file("output")) == 0);
  const auto spans = events(Json::parse(read_file(file("trace"))), "X");
  REQUIRE(spans.size() == 6);  // setup, the order of the epoch, data, forward, backward, step
  REQUIRE_THAT(read_file(file("output")), ContainsSubstring("recorded the memory of 1 window:"));
  const bool says_so = read_file(file("output")).find("CUDA graphs are off") != std::string::npos;
  REQUIRE(says_so == (test_device() == Device::cuda));

  REQUIRE(train("--steps 1 --memory-trace /nowhere/trace.json", file("output")) == 1);
  REQUIRE_THAT(read_file(file("output")), ContainsSubstring("/nowhere"));
  REQUIRE(train("--steps 1 --memory-trace-windows 1", file("output")) != 0);
}

}  // namespace accrue::test
