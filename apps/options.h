#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "core/ceil_div.h"
#include "core/memory.h"
#include "layers/models.h"
#include "optim/window.h"

// Few sources need the command line parser itself, whose header is slow to compile.
namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace accrue::app {

// How the samples of one optimizer step are cut: micro-batches of `micro`, the last of a window
// smaller when `effective` is not a multiple.
struct Batches {
  int64_t micro, effective;
  int64_t accumulation_steps() const { return ceil_div(effective, micro); }
  // "64 (16 x 4)", with the remainder where there is one: "70 (16 x 4 + 6)"
  std::string describe() const;
};

// What a model computes in: activations, and what its products multiply. Parameters, gradients and
// moments are float32 throughout, and so are sums. tf32 is float32 in memory, with products on the
// tensor cores of a GPU that round their factors to 10 fraction bits.
enum class Precision { fp32, tf32, bf16, fp16 };
constexpr DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16: return DType::bf16;
    case Precision::fp16: return DType::f16;
    case Precision::fp32:
    case Precision::tf32: break;
  }
  return DType::f32;
}

enum class OptimizerKind { adam, adamw, sgd };
enum class DeviceChoice { automatic, cpu, cuda };
// What becomes of a gradient that is not finite: its window is skipped, its micro-batch left out,
// or the run ends.
enum class OnOverflowChoice { skip_window, drop_micro_batch, stop };
// --loss-scale dynamic
inline constexpr double dynamic_loss_scale = -std::numeric_limits<double>::infinity();
// What becomes of a window that memory does not suffice for: the run fails, or the micro-batch is
// halved and the window run again (apps/window_runner.h).
enum class OnOom { fail, split };
// --micro-batch auto: the largest that fits (apps/plan.h).
inline constexpr int64_t auto_micro_batch = std::numeric_limits<int64_t>::min();
// The effective batch where the options leave it open.
inline constexpr int64_t default_effective_batch = 64;

// The names of choices on the command line, beside model_names().
const std::map<std::string, Precision>& precision_names();
const std::map<std::string, InitScheme>& init_scheme_names();
const std::map<std::string, Strategy>& strategy_names();
const std::map<std::string, Recompute>& recompute_names();
const std::map<std::string, OnOom>& on_oom_names();
const std::map<std::string, OnOverflowChoice>& on_overflow_names();
const std::map<std::string, OptimizerKind>& optimizer_names();
const std::map<std::string, DeviceChoice>& device_names();
const std::map<std::string, Graphs>& graphs_names();
template <class Enum>
std::string name_in(const std::map<std::string, Enum>& names, Enum value) {
  for (const auto& [name, candidate] : names)
    if (candidate == value) return name;
  return "?";
}

// What an option takes, as --help says it.
CLI::Validator positive();
CLI::Validator not_negative();

// Everything that decides what a training run computes.
struct TrainOptions {
  ModelOptions model;
  Precision precision = Precision::fp32;
  std::string data;  // empty: what the model learns from without --data
  std::string data_dir;
  int64_t micro_batch = 16;
  std::optional<int64_t> accum, effective_batch;
  Strategy strategy = Strategy::fused;
  Recompute recompute = Recompute::none;
  OnOom on_oom = OnOom::fail;
  int64_t epochs = 1;
  std::optional<int64_t> steps;
  bool shuffle = true;

  OptimizerKind optimizer = OptimizerKind::adam;
  ScheduleOptions schedule;
  AdamOptions adam;
  std::optional<double> weight_decay;
  SgdOptions sgd;
  std::optional<double> clip_norm, ema, beta2_half_life;
  bool noise_scale = false;
  // Without one: dynamic for fp16, whose smallest number is 6e-8, else 1.
  std::optional<double> loss_scale;
  LossScale dynamic_scale = LossScale::dynamic();
  OnOverflowChoice on_overflow = OnOverflowChoice::skip_window;
  int64_t max_skipped = 10;  // windows in a row

  uint64_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  Graphs cuda_graphs = Graphs::on;
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
  std::string checkpoint_dir;
  int64_t checkpoint_every = 500, keep = 3;
  bool resume = false;

  // The data set's: that of --data, else shapes for a model of masks and digits for one of labels.
  std::string data_name() const;
  LossScale chosen_loss_scale() const;
  // Throws Error for a contradiction between micro_batch, accum and effective_batch, for batches
  // that the data (samples) cannot fill, and for accumulation with step-in-backward.
  Batches batches(int64_t samples) const;
  // Adam's, for an effective batch: beta2_half_life counts in samples.
  double beta2(int64_t effective_batch_size) const;
};

// Declares the options of `accrue train` (and of whatever trains) on a subcommand.
void add_model_options(CLI::App& command, TrainOptions& options);
// --device and --threads alone, which add_model_options() declares, too.
void add_device_options(CLI::App& command, TrainOptions& options);
void add_batch_options(CLI::App& command, TrainOptions& options);
void add_on_oom_option(CLI::App& command, TrainOptions& options);
void add_strategy_option(CLI::App& command, TrainOptions& options);
void add_recompute_option(CLI::App& command, TrainOptions& options);
void add_optimizer_kind_option(CLI::App& command, TrainOptions& options);
void add_optimizer_options(CLI::App& command, TrainOptions& options);
void add_loss_scale_options(CLI::App& command, TrainOptions& options);
void add_output_options(CLI::App& command, TrainOptions& options);
// What the options of a subcommand that has been parsed are set to, given or by default; outputs
// and what is not set are left out.
std::map<std::string, std::string> settings_of(CLI::App& command);
// The device that the options mean, without a word about it; cuda where it is asked for, whether it
// can be used or not.
Device wanted_device(const TrainOptions& options);
void apply_threads(const TrainOptions& options);
// --device, --threads and --memory-limit take effect here. Returns the device to run on and, if it
// was chosen automatically, says so. Throws Error if a device is asked for that cannot be used.
Device apply_machine_options(const TrainOptions& options);

}  // namespace accrue::app
