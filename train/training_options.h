#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accumulate/window_options.h"
#include "data/safetensors.h"
#include "train/batches.h"
#include "train/objective.h"
#include "train/player_options.h"

namespace accrue {

namespace detail {

constexpr DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16: return DType::bf16;
    case Precision::fp16: return DType::f16;
    case Precision::fp64: return DType::f64;
    case Precision::fp32:
    case Precision::tf32: break;
  }
  return DType::f32;
}

}  // namespace detail

// The reaction to a window for which there is not enough memory: the run fails, or the micro-batch
// is halved and the window runs again (train/training.h).
enum class OnOom { fail, split };

namespace detail {

// The names of the choices, for messages and files.
const std::map<std::string, Precision>& precision_names();
const std::map<std::string, Strategy>& strategy_names();
std::string help_of_strategies();
const std::map<std::string, Recompute>& recompute_names();
const std::map<std::string, OnOom>& on_oom_names();
const std::map<std::string, OnOverflow>& on_overflow_names();
const std::map<std::string, Pack>& pack_names();
const std::map<std::string, Graphs>& graphs_names();
const std::map<std::string, Overlap>& rank_overlap_names();
const std::map<std::string, Order>& order_names();
const std::map<std::string, BatchNormOver>& batch_norm_names();
const std::map<std::string, BatchNormBy>& batch_norm_by_names();

}  // namespace detail

// A value of TrainingOptions::eval_every.
inline constexpr int64_t each_epoch = 0;

// Where and how often a run is saved. Without a directory it is not saved.
struct CheckpointOptions {
  std::string directory{};
  int64_t every = 500;    // optimizer steps
  int64_t keep_last = 3;  // how many remain
  bool resume = false;    // from the latest whole checkpoint, if there is one
  Metadata origin{};      // for people, such as how the run was started
};

namespace detail {

// The values that must be equal for two runs to be the same, as text by name ("none" for an unset
// value).
struct RunIdentity {
  Metadata values{};
  // Settings without an effect on the result, at least with the other settings' values. A
  // checkpoint may have other values, or none.
  std::set<std::string> idle{};
  // Settings whose value has the same effect as not having the setting. A checkpoint may lack them.
  std::set<std::string> usual{};
};

}  // namespace detail

// Everything that decides what a training run computes, beside its data. A field that a user can
// set by name has a row in table_of(), below.
struct TrainingOptions : StepOptions, detail::Task {
  Order order = Order::alternating;
  Batches batches;
  Precision precision = Precision::fp32;
  Strategy strategy = detail::reference_strategy();
  Recompute recompute = Recompute::none;
  BatchNormOver batch_norm = BatchNormOver::micro_batch;
  BatchNormBy batch_norm_by = BatchNormBy::keep;
  bool keeps_window() const { return accrue::detail::keeps_window(batch_norm, batch_norm_by); }
  int64_t window_passes =
      detail::few_window_passes;    // with walk, the most additional passes (RepeatedWalk)
  Pack pack = Pack::where_it_pays;  // where_it_pays: only for windows of several micro-batches
  OnOom on_oom = OnOom::fail;
  int64_t epochs = 1;
  std::optional<int64_t> steps;       // a limit on optimizer steps, if the epochs have more
  std::optional<double> max_minutes;  // of each run(), which completes its last window
  bool shuffle = true;
  // The names of layers that are not trained, if there is one network; backbone means all but the
  // last layer (layers/module.h, place()).
  std::vector<std::string> freeze;

  // Scores other data during the run, after this many windows each time; each_epoch: after every
  // epoch.
  std::optional<int64_t> eval_every;
  // Ends the run after this many scores in a row without a lower loss.
  std::optional<int64_t> patience;
  bool keep_best = false;  // keeps a checkpoint of the lowest loss scored, beside the others

  OnOverflow on_overflow = OnOverflow::skip_window;
  int64_t max_skipped = 10;  // windows in a row

  uint64_t seed = 1;  // of weights, order and dropout
  Graphs cuda_graphs = Graphs::on;

  // The processes that share the micro-batches of each window (accumulate/ranks.h). Each makes a
  // training with the same options, and the first writes the checkpoints. Null: only this process.
  Ranks* ranks = nullptr;
  // The unit in which the samples of a window are divided among the ranks: batches.micro, even
  // where a rank's micro-batch has been halved for lack of memory.
  std::optional<int64_t> share_unit;
  // Each rank keeps the optimizer's state, and the average of the weights, only for its shard of
  // the parameters (accumulate/window.h).
  bool shard_optimizer = false;
  // automatic: on where it is known to help, on the CPU, if the other options allow it.
  Overlap rank_overlap = Overlap::automatic;
  // True if this process writes files for all ranks.
  bool is_first_rank() const;

  CheckpointOptions checkpoints;
  // Further settings that must be equal for two runs to be the same, such as the sizes of the
  // model: a run does not resume from a checkpoint that differs in them (train/run_identity.h).
  detail::RunIdentity identity;
  // The metadata of saved weights, such as the model's name.
  Metadata about_weights;
  // about_weights and accrue's version.
  Metadata weights_metadata() const;

  // The networks to train: the players, or the single unnamed network with the objective's loss.
  std::vector<PlayerOptions> networks(const ObjectivePtr& objective) const;
  // The schedule of one network over the steps that it takes with this many samples.
  ScheduleOptions schedule_of(const PlayerOptions& network, int64_t samples) const;

  ObjectivePtr objective_for(const Dataset& data) const;
  Overlap chosen_overlap(Device device) const;
  // The number of optimizer steps for this many samples if no window is skipped. No run takes more.
  int64_t total_steps(int64_t samples) const;
};

// The settings of a training by name.
Settings settings_of(TrainingOptions& o);
// The same table for reading only.
inline Settings settings_of(const TrainingOptions& o) {
  return settings_of(const_cast<TrainingOptions&>(o)).read_only();
}

namespace detail {

// The table is beside the fields, so that everything about a setting except its effect is in one
// place. Only settings_of() uses it, so that it is compiled once.
inline Settings table_of(TrainingOptions& o) {
  constexpr Decides result = Decides::result, no_result = Decides::no_result;
  Settings s;
  s.group("Model and data")
      .add(o.precision, precision_names(),
           {.name = "precision",
            .decides = result,
            .help = "Type of activations and products; sums, parameters and their gradients stay "
                    "in float32. "
                    "fp64: everything in float64, on the CPU, to check other results by",
            .acts_in = ActsIn::answers,
            .asked_by = AskedBy::most_runs})
      .add(o.seed, {.name = "seed",
                    .decides = result,
                    .help = "Seed of weights, order and dropout",
                    .range = zero_or_more,
                    .costs = Costs::nothing});
  s.group("Machine").add(o.cuda_graphs, graphs_names(),
                         {.name = "cuda-graphs",
                          .decides = no_result,
                          .help = "Record micro-steps and steps once and replay them; the same "
                                  "bits either way",
                          .acts_on = ActsOn::gpu});
  s.group("Batches")
      .add(o.strategy, strategy_names(), {"strategy", result, help_of_strategies()})
      .add(o.recompute, recompute_names(),
           {"recompute", no_result,
            "Keep fewer activations and compute them again in backward: of the model's n blocks, "
            "keep about sqrt(n), or the input of each (all)"})
      .add(o.batch_norm, batch_norm_names(),
           {"batch-norm", result,
            "Whose statistics BatchNorm takes: the micro-batch's, or the whole window's, as in one "
            "big batch"})
      .add(o.batch_norm_by, batch_norm_by_names(),
           {.name = "batch-norm-by",
            .decides = no_result,
            .help = "How BatchNorm sees the window, with the same bits (within rounding where a "
                    "sample goes through the network twice, as two views): keep what backward "
                    "needs of all micro-batches (recompute says how much); keep it on the host of "
                    "a GPU (offload); or keep nothing, and walk the window twice more for each "
                    "BatchNorm",
            .needs = "batch-norm"})
      .add(o.window_passes,
           {.name = "window-passes",
            .decides = no_result,
            .help = "With batch-norm-by walk: at most this many additional walks",
            .range = {1, 1e6},
            .needs = "batch-norm",
            .acts_with = {{"batch-norm", {"window"}}, {"batch-norm-by", {"walk"}}}})
      .add(o.pack, pack_names(),
           {.name = "pack",
            .decides = no_result,
            .help = "Keep the weights of 3x3 convolutions in the form that the CPU multiplies by, "
                    "for all micro-batches of a window; the same bits either way. auto: in layers "
                    "where that saves much time, unless memory is limited",
            .acts_on = ActsOn::cpu})
      .add(o.epochs, {.name = "epochs",
                      .decides = no_result,
                      .help = "Passes over the training data, skipped windows included",
                      .range = {0, 1e9},
                      .asked_by = AskedBy::most_runs})
      .add(o.steps, {.name = "steps",
                     .decides = no_result,
                     .help = "Stop earlier, after this many optimizer steps",
                     .range = zero_or_more})
      .add(o.max_minutes, {.name = "max-minutes",
                           .decides = no_result,
                           .help = "Stop after this time, at the end of a window, as on Ctrl-C: "
                                   "with checkpoints, the run can be resumed",
                           .range = above_zero,
                           .costs = Costs::nothing})
      .add_flag(o.shuffle, false,
                {.name = "no-shuffle",
                 .decides = result,
                 .help = "Take the samples in the order of the file",
                 .costs = Costs::nothing})
      .add(o.on_oom, on_oom_names(),
           {.name = "on-oom",
            .decides = no_result,
            .help = "split: a window that does not fit is run again with half the micro-batch",
            .costs = Costs::nothing});
  s.group("Optimizer")
      .add(o.freeze, {"freeze", result,
                      "Leave these layers as they are, without gradients, and their BatchNorms as "
                      "in evaluation: conv1,layer1.0, or backbone for all but the last",
                      "NAME,..."});
  s.group("Several processes")
      .add_flag(o.shard_optimizer, true,
                {.name = "shard-optimizer",
                 .decides = no_result,
                 .help = "Each rank keeps the optimizer's state of its share of the parameters, "
                         "steps them and sends them to the others: ZeRO's stage 1, with the same "
                         "bits",
                 .acts_on = ActsOn::several_processes})
      .add(o.rank_overlap, rank_overlap_names(),
           {.name = "rank-overlap",
            .decides = no_result,
            .help = "Exchange gradients while the last backward of a window goes on, with the same "
                    "bits; auto: on the CPU, with strategy fused, whole optimizers and without "
                    "on-oom split",
            .acts_on = ActsOn::several_processes});
  s.append(settings_of(static_cast<StepOptions&>(o)))
      .group("Loss scale")
      .add(o.on_overflow, on_overflow_names(),
           {"on-overflow", result,
            "A gradient that is not finite: skip its window; leave out its micro-batch (takes "
            "strategy separate); or stop"})
      .add(o.max_skipped, {.name = "max-skipped",
                           .decides = no_result,
                           .help = "Stop after this many skipped windows in a row, unless the loss "
                                   "scale is still halving",
                           .range = above_zero,
                           .costs = Costs::nothing});
  s.group("Evaluation")
      .add(o.eval_every,
           {.name = "eval-every",
            .decides = no_result,
            .help = "Score the test data during the run, after every N windows or every epoch",
            .takes = "N|epoch",
            .range = above_zero,
            .words = {{"epoch", double(each_epoch)}}})
      .add(o.patience, {.name = "patience",
                        .decides = no_result,
                        .help = "Stop after this many scores in a row without a lower loss",
                        .range = above_zero,
                        .needs = "eval-every",
                        .costs = Costs::nothing})
      .add_flag(o.keep_best, true,
                {.name = "keep-best",
                 .decides = no_result,
                 .help = "Keep the checkpoint of the lowest loss, in DIR/best",
                 .needs = "eval-every",
                 .costs = Costs::nothing});
  s.group("Checkpoints")
      .add(o.checkpoints.directory,
           {.name = "checkpoint-dir",
            .decides = no_result,
            .help = "Write checkpoints there, also at the end and when interrupted",
            .takes = writes("DIR", Path::directory),
            .written_by = WrittenBy::all_ranks,
            .asked_by = AskedBy::most_runs})
      .add(o.checkpoints.every, {.name = "checkpoint-every",
                                 .decides = no_result,
                                 .help = "Optimizer steps between two checkpoints",
                                 .range = above_zero,
                                 .needs = "checkpoint-dir",
                                 .costs = Costs::nothing})
      .add(o.checkpoints.keep_last, {.name = "keep-last",
                                     .decides = no_result,
                                     .help = "How many of the latest checkpoints to keep",
                                     .range = above_zero,
                                     .needs = "checkpoint-dir",
                                     .costs = Costs::nothing})
      .add_flag(o.checkpoints.resume, true,
                {.name = "resume",
                 .decides = no_result,
                 .help = "Resume from the latest whole checkpoint, or start from the beginning if "
                         "there is none",
                 .needs = "checkpoint-dir",
                 .asked_by = AskedBy::most_runs});
  return s;
}

// Throws Error unless 1 <= micro <= effective, for a strategy that does not go with the split, the
// precision or a sharded optimizer, without a model, and for players that do not go together.
void check_options(const TrainingOptions& options);
// Throws Error for a precision that no model has on the device.
void check_precision(Precision precision, Device device);

}  // namespace detail

}  // namespace accrue
