#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "layers/models.h"
#include "train/training_options.h"

// Few sources need the command line parser itself, whose header is slow to compile.
namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace accrue::app {

enum class DeviceChoice { automatic, cpu, cuda };
// --micro-batch auto: the largest that fits (apps/commands/plan.h).
inline constexpr int64_t auto_micro_batch = std::numeric_limits<int64_t>::min();
// The effective batch where the options leave it open.
inline constexpr int64_t default_effective_batch = 64;

// The names of choices on the command line, beside model_names() and those of TrainingOptions.
const std::map<std::string, InitScheme>& init_scheme_names();
const std::map<std::string, DeviceChoice>& device_names();
const std::map<std::string, Graphs>& graphs_names();

// What an option takes, as --help says it.
CLI::Validator positive();
CLI::Validator not_negative();

// What a command was asked for: a training, and what the program does around it.
struct Options : TrainingOptions {
  ModelOptions network;
  std::string data;  // empty: what the model learns from without --data
  std::string data_dir;
  int64_t micro_batch = 16;
  std::optional<int64_t> accum, effective_batch;

  DeviceChoice device = DeviceChoice::automatic;
  int threads = 0;  // 0: one for each CPU that the program may use
  std::string memory_limit;
  std::string init, save, json, memory_trace;
  int64_t memory_trace_windows = 2;
  std::string profile;
  int64_t profile_windows = 2;
  std::string log_dir;
  int64_t log_histograms = 0;  // every so many steps; 0: never
  // What is set to what, by option, outputs aside: for log_dir's summary.
  std::map<std::string, std::string> settings;
  int64_t log_every = 100;
  bool measure_baseline = false;

  // The data set's: that of --data, else shapes for a model of masks and digits for one of labels.
  std::string data_name() const;
  // Throws Error for a contradiction between micro_batch, accum and effective_batch, and for
  // batches that the data (samples) cannot fill.
  Batches batches_of(int64_t samples) const;
  // The training that is asked for, on so many samples: the model, its batches and the run's
  // identity are filled in. Throws as batches_of() and check_options() do.
  TrainingOptions training(int64_t samples) const;
  // The same with a micro-batch that is still to be chosen (plan_windows()).
  TrainingOptions to_plan(int64_t samples) const;

 private:
  TrainingOptions training_with(Batches batches) const;
};

// Declares the options of `accrue train` (and of whatever trains) on a subcommand.
void add_model_options(CLI::App& command, Options& options);
// --device and --threads alone, which add_model_options() declares, too.
void add_device_options(CLI::App& command, Options& options);
void add_batch_options(CLI::App& command, Options& options);
void add_on_oom_option(CLI::App& command, Options& options);
void add_strategy_option(CLI::App& command, Options& options);
void add_recompute_option(CLI::App& command, Options& options);
void add_optimizer_kind_option(CLI::App& command, Options& options);
void add_optimizer_options(CLI::App& command, Options& options);
void add_loss_scale_options(CLI::App& command, Options& options);
void add_output_options(CLI::App& command, Options& options);
// What the options of a subcommand that has been parsed are set to, given or by default; outputs
// and what is not set are left out.
std::map<std::string, std::string> settings_of(CLI::App& command);
// The device that the options mean, without a word about it; cuda where it is asked for, whether it
// can be used or not.
Device wanted_device(const Options& options);
void apply_threads(const Options& options);
// --device, --threads and --memory-limit take effect here. Returns the device to run on and, if it
// was chosen automatically, says so. Throws Error if a device is asked for that cannot be used.
Device apply_machine_options(const Options& options);

}  // namespace accrue::app
