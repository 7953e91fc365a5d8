#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/safetensors.h"
#include "layers/module.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "optim/window_options.h"
#include "train/batches.h"
#include "train/objective.h"
#include "train/settings.h"

namespace accrue {

// The type that a model computes in: activations, and the factors of its products. Parameters,
// gradients and moments are float32 throughout, and so are sums. tf32 is float32 in memory, with
// products on the tensor cores of a GPU that round their factors to 10 fraction bits; it takes
// effect by cuda::allow_tf32().
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

enum class OptimizerKind { adam, adamw, sgd, lion };
// The fate of a gradient that is not finite: its window is skipped, its micro-batch left out,
// or the run ends.
enum class OnOverflowChoice { skip_window, drop_micro_batch, stop };
// For TrainingOptions::loss_scale.
inline constexpr double dynamic_loss_scale = -std::numeric_limits<double>::infinity();
// The fate of a window that memory does not suffice for: the run fails, or the micro-batch is
// halved and the window run again (train/window_runner.h).
enum class OnOom { fail, split };

// The names of the choices, in messages and files.
const std::map<std::string, Precision>& precision_names();
const std::map<std::string, Strategy>& strategy_names();
const std::map<std::string, Recompute>& recompute_names();
const std::map<std::string, OnOom>& on_oom_names();
const std::map<std::string, OnOverflowChoice>& on_overflow_names();
const std::map<std::string, OptimizerKind>& optimizer_names();
const std::map<std::string, ScheduleOptions::Kind>& schedule_names();
const std::map<std::string, Graphs>& graphs_names();
template <class Enum>
std::string name_in(const std::map<std::string, Enum>& names, Enum value) {
  for (const auto& [name, candidate] : names)
    if (candidate == value) return name;
  return "?";
}

// Where and how often a run is saved. Without a directory it is not.
struct CheckpointOptions {
  std::string directory{};
  int64_t every = 500;  // optimizer steps
  int64_t keep = 3;     // how many remain
  bool resume = false;  // go on from the latest whole one, from the start if there is none
  Metadata origin{};    // for people: how the run was started, say
};

// Everything that decides what a training run computes, beside its data. A field has a row in
// settings_of(), below, unless another is derived from it.
struct TrainingOptions {
  ModelFactory model;  // called anew for every prediction of memory
  // Null: that of the data set (objective_of()).
  ObjectivePtr objective{};
  Batches batches;
  Precision precision = Precision::fp32;
  Strategy strategy = Strategy::fused;
  Recompute recompute = Recompute::none;
  OnOom on_oom = OnOom::fail;
  int64_t epochs = 1;
  std::optional<int64_t> steps;       // fewer optimizer steps than the epochs have
  std::optional<double> max_minutes;  // of each run(), whose last window is completed
  bool shuffle = true;

  OptimizerKind optimizer = OptimizerKind::adam;
  ScheduleOptions schedule;            // its `total` is derived
  double beta1 = 0.9;                  // adam, adamw, lion
  std::optional<double> beta2;         // without: 0.999, for lion 0.99
  double eps = 1e-8;                   // adam, adamw
  double momentum = 0;                 // sgd
  bool nesterov = false;               // sgd
  std::optional<double> weight_decay;  // without: 0, for adamw 0.01
  // beta2_half_life: samples after which half of what beta2 decays is gone, in its place.
  std::optional<double> clip_norm, ema, beta2_half_life;
  bool noise_scale = false;
  // A number, or dynamic_loss_scale. Without: dynamic for fp16, whose smallest number is 6e-8,
  // else 1.
  std::optional<double> loss_scale;
  LossScale dynamic_scale = LossScale::dynamic();
  OnOverflowChoice on_overflow = OnOverflowChoice::skip_window;
  int64_t max_skipped = 10;  // windows in a row

  uint64_t seed = 1;  // of weights, order and dropout
  Graphs cuda_graphs = Graphs::on;

  CheckpointOptions checkpoints;
  // Further settings that make two runs the same, such as the sizes of the model: a run does not go
  // on from a checkpoint that differs in it.
  Metadata identity;

  ObjectivePtr objective_for(const Dataset& data) const;
  LossScale chosen_loss_scale() const;
  // That of beta2_half_life for this effective batch, else beta2 or the optimizer's own.
  double chosen_beta2() const;
  // Optimizer steps over so many samples if no window is skipped; never more are taken.
  int64_t total_steps(int64_t samples) const;
};

// The settings of a training by name. Their table stands beside the fields, so that one place tells
// all of a setting but what it does.
inline Settings settings_of(TrainingOptions& o) {
  constexpr Decides result = Decides::result, no_result = Decides::no_result;
  const std::string dynamic = "dynamic: ";
  Settings s;
  s.group("Model and data")
      .add(o.precision, precision_names(),
           {"precision", result,
            "Of activations and products; sums, parameters and their gradients stay in float32"})
      .add(o.seed, {.name = "seed",
                    .decides = result,
                    .help = "Seed of weights, order and dropout",
                    .range = not_negative});
  s.group("Machine").add(o.cuda_graphs, graphs_names(),
                         {"cuda-graphs", no_result,
                          "Record micro-steps and steps once and replay them; the same bits either "
                          "way"});
  s.group("Batches")
      .add(o.strategy, strategy_names(),
           {"strategy", result,
            "fused: backward accumulates; separate: a second buffer and an adding pass; moments: "
            "gradients go into Adam's moments one by one (AdamA, another optimizer); "
            "step-in-backward: parameters are stepped one by one, without accumulation"})
      .add(o.recompute, recompute_names(),
           {"recompute", no_result,
            "Keep fewer activations and compute them again in backward: of the model's n blocks, "
            "keep about sqrt(n), or the input of each (all)"})
      .add(o.epochs, {.name = "epochs",
                      .decides = no_result,
                      .help = "Passes over the training data, skipped windows included",
                      .range = {0, 1e9}})
      .add(o.steps, {.name = "steps",
                     .decides = no_result,
                     .help = "Stop before that, after this many optimizer steps taken",
                     .range = not_negative})
      .add(o.max_minutes, {.name = "max-minutes",
                           .decides = no_result,
                           .help = "Stop after the window in which so much time has passed, as on "
                                   "Ctrl-C: what has a checkpoint can go on",
                           .range = positive})
      .add_flag(o.shuffle, false,
                {"no-shuffle", result, "Take the samples in the order of the file"})
      .add(o.on_oom, on_oom_names(),
           {"on-oom", no_result,
            "split: a window that does not fit is run again with half the micro-batch"});
  s.group("Optimizer")
      .add(o.optimizer, optimizer_names(), {"optimizer", result, "Update rule"})
      .add(o.schedule.base, {"lr", result, "Learning rate"})
      .add(o.beta1, {"beta1", result, "Adam: decay of the first moment; lion: share of the moment"})
      .add(o.beta2, {.name = "beta2",
                     .decides = result,
                     .help = "Adam: decay of the second moment; lion: of the moment",
                     .unset = "0.999; for lion 0.99",
                     .excludes = "beta2-half-life"})
      .add(o.beta2_half_life,
           {"beta2-half-life", result,
            "Adam: the same by the samples after which half of it is gone", "SAMPLES"})
      .add(o.eps, {"eps", result, "Adam: added to the root of the second moment"})
      .add(o.weight_decay,
           {.name = "weight-decay",
            .decides = result,
            .help = "Decay of the weights; with adamw and lion apart from the gradient",
            .unset = "0; for adamw 0.01"})
      .add(o.momentum, {"momentum", result, "SGD momentum"})
      .add_flag(o.nesterov, true, {"nesterov", result, "SGD: Nesterov's momentum"})
      .add(o.clip_norm, {"clip-norm", result, "Largest norm of the window's gradient"})
      .add(o.schedule.kind, schedule_names(),
           {"schedule", result, "Learning rate over the optimizer steps"})
      .add(o.schedule.warmup_steps, {"warmup-steps", result, "Linear warm-up, for every schedule"})
      .add(o.schedule.every, {"lr-every", result, "step: optimizer steps between two reductions"})
      .add(o.schedule.gamma, {"lr-gamma", result, "step, plateau: factor of a reduction"})
      .add(o.schedule.floor, {"lr-floor", result, "step, cosine, plateau: lowest learning rate"})
      .add(o.schedule.patience,
           {"lr-patience", result, "plateau: epochs without a lower loss to wait"})
      .add(o.schedule.pct_start,
           {"lr-rise", result, "one-cycle: share of the steps in which it rises"})
      .add(o.schedule.div_factor,
           {"lr-start-divisor", result, "one-cycle: it starts at the learning rate over this"})
      .add(o.schedule.final_div_factor,
           {"lr-end-divisor", result, "one-cycle: and ends at that over this"})
      .add(o.ema, {"ema", result,
                   "Also average the weights over the steps, with this decay (0.999)", "DECAY"})
      .add_flag(o.noise_scale, true,
                {"noise-scale", no_result,
                 "Estimate the gradient's noise scale: the effective batch beyond which more "
                 "samples help little"});
  s.group("Loss scale")
      .add(o.loss_scale, {.name = "loss-scale",
                          .decides = result,
                          .help = "Factor on the loss in backward, divided out in the step",
                          .takes = "X|dynamic",
                          .unset = "dynamic with fp16, else 1",
                          .words = {{"dynamic", dynamic_loss_scale}}})
      .add(o.dynamic_scale.initial, {"loss-scale-init", result, dynamic + "the first"})
      .add(o.dynamic_scale.growth,
           {"loss-scale-growth", result, dynamic + "its factor after windows without an overflow"})
      .add(o.dynamic_scale.interval,
           {"loss-scale-interval", result, dynamic + "so many of them in a row"})
      .add(o.dynamic_scale.backoff,
           {"loss-scale-backoff", result, dynamic + "its factor after an overflow"})
      .add(o.dynamic_scale.hysteresis,
           {"loss-scale-hysteresis", result, dynamic + "so many overflows before it backs off"})
      .add(o.on_overflow, on_overflow_names(),
           {"on-overflow", result,
            "A gradient that is not finite: skip its window; leave out its micro-batch (takes "
            "strategy separate); or stop"})
      .add(o.max_skipped, {.name = "max-skipped",
                           .decides = no_result,
                           .help = "Stop after so many windows in a row that no smaller loss scale "
                                   "would save, or in which it does not halve",
                           .range = positive});
  s.group("Checkpoints")
      .add(o.checkpoints.directory,
           {"checkpoint-dir", no_result,
            "Write checkpoints there, also at the end and when interrupted", "DIR"})
      .add(o.checkpoints.every, {.name = "checkpoint-every",
                                 .decides = no_result,
                                 .help = "Optimizer steps between two",
                                 .range = positive,
                                 .needs = "checkpoint-dir"})
      .add(o.checkpoints.keep, {.name = "keep",
                                .decides = no_result,
                                .help = "How many checkpoints remain",
                                .range = positive,
                                .needs = "checkpoint-dir"})
      .add_flag(o.checkpoints.resume, true,
                {.name = "resume",
                 .decides = no_result,
                 .help = "Go on from the latest whole checkpoint, from the start if there is none",
                 .needs = "checkpoint-dir"});
  return s;
}

// Throws Error unless 1 <= micro <= effective, for accumulation with step_in_backward, and without
// a model.
void check_options(const TrainingOptions& options);

}  // namespace accrue
