#pragma once

#include <nlohmann/json.hpp>

#include "apps/options.h"
#include "apps/tensorboard/event_file.h"
#include "optim/window.h"

namespace accrue::app {

// The directory of --log-dir: what a run tells, for TensorBoard and for `accrue report`.
//   events.out.tfevents.*  scalars named after the keys of a line of --json ("train/loss",
//                          "peak_bytes/activations"), the test's ("test/accuracy"), and
//                          histograms ("gradients/0.weight")
//   metrics.jsonl          the lines of --json
//   summary.json           at the end: settings, environment, results
// Whatever has been told stays readable when the process is killed.
class RunLog {
 public:
  using Json = nlohmann::ordered_json;

  // With --resume the log of a run that goes on after `steps_before` steps is continued:
  // metrics.jsonl as it is, events in a new file. Throws Error for a directory that cannot be made
  // or written to, or that has another run in it, and without protobuf.
  RunLog(const TrainOptions& options, int64_t steps_before);

  // A line of --json about a step.
  void step(const Json& line);
  // If it is their turn, the histograms of each parameter's gradient as the window's last step used
  // it. Waits for the device. To be called between that step and the next window.
  void gradients(Window& window);
  // The last line of --json.
  void score(const Json& line);
  // Writes the summary: `results`, after the settings and the environment.
  void finish(const Json& results, Device device);

 private:
  void write_line(const Json& line);

  const TrainOptions& options_;
  std::filesystem::path directory_;
  EventFile events_;
  AppendFile metrics_;
  std::string begun_;
  int64_t last_step_;
};

}  // namespace accrue::app
