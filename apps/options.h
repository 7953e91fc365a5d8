#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>

#include "core/memory.h"
#include "layers/models.h"
#include "optim/window.h"

namespace accrue::app {

// How the samples of one optimizer step are cut: micro-batches of `micro`, the last of a window
// smaller when `effective` is not a multiple.
struct Batches {
  int64_t micro, effective;
  int64_t accumulation_steps() const { return (effective + micro - 1) / micro; }
  // "64 (16 x 4)", with the remainder where there is one: "70 (16 x 4 + 6)"
  std::string describe() const;
};

enum class OptimizerKind { adam, adamw, sgd };
enum class DeviceChoice { automatic, cpu, cuda };

// The names of choices on the command line, beside model_names().
const std::map<std::string, InitScheme>& init_scheme_names();
const std::map<std::string, Strategy>& strategy_names();
const std::map<std::string, OptimizerKind>& optimizer_names();
const std::map<std::string, DeviceChoice>& device_names();
const std::map<std::string, Graphs>& graphs_names();
template <class Enum>
std::string name_in(const std::map<std::string, Enum>& names, Enum value) {
  for (const auto& [name, candidate] : names)
    if (candidate == value) return name;
  return "?";
}

// Everything that decides what a training run computes.
struct TrainOptions {
  ModelOptions model;
  std::string data = "digits";
  std::string data_dir;
  int64_t micro_batch = 16;
  std::optional<int64_t> accum, effective_batch;
  Strategy strategy = Strategy::fused;
  int64_t epochs = 1;
  std::optional<int64_t> steps;
  bool shuffle = true;

  OptimizerKind optimizer = OptimizerKind::adam;
  ScheduleOptions schedule;
  AdamOptions adam;
  std::optional<double> weight_decay;
  SgdOptions sgd;
  std::optional<double> clip_norm;
  double loss_scale = 1;

  uint64_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  Graphs cuda_graphs = Graphs::on;
  int threads = 0;  // 0: as many as the machine has
  std::string memory_limit;
  std::string init, save, json;
  int64_t log_every = 100;
  bool measure_baseline = false;

  // Throws Error for a contradiction between micro_batch, accum and effective_batch, and for
  // batches that the data (samples) cannot fill.
  Batches batches(int64_t samples) const;
};

// Declares the options of `accrue train` (and of whatever trains) on a subcommand.
void add_model_options(CLI::App& command, TrainOptions& options);
// --device and --threads alone, which add_model_options() declares, too.
void add_device_options(CLI::App& command, TrainOptions& options);
void add_batch_options(CLI::App& command, TrainOptions& options);
void add_strategy_option(CLI::App& command, TrainOptions& options);
void add_optimizer_kind_option(CLI::App& command, TrainOptions& options);
void add_optimizer_options(CLI::App& command, TrainOptions& options);
void add_output_options(CLI::App& command, TrainOptions& options);
// --device, --threads and --memory-limit take effect here. Returns the device to run on and, if it
// was chosen automatically, says so. Throws Error if a device is asked for that cannot be used.
Device apply_machine_options(const TrainOptions& options);

}  // namespace accrue::app
