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
// What becomes of a gradient that is not finite: its window is skipped, its micro-batch left out,
// or the run ends.
enum class OnOverflowChoice { skip_window, drop_micro_batch, stop };
// For TrainingOptions::loss_scale.
inline constexpr double dynamic_loss_scale = -std::numeric_limits<double>::infinity();
// What becomes of a window that memory does not suffice for: the run fails, or the micro-batch is
// halved and the window run again (train/window_runner.h).
enum class OnOom { fail, split };

// The names of the choices, in messages and files.
const std::map<std::string, Precision>& precision_names();
const std::map<std::string, Strategy>& strategy_names();
const std::map<std::string, Recompute>& recompute_names();
const std::map<std::string, OnOom>& on_oom_names();
const std::map<std::string, OnOverflowChoice>& on_overflow_names();
const std::map<std::string, OptimizerKind>& optimizer_names();
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

// Everything that decides what a training run computes, beside its data.
struct TrainingOptions {
  ModelFactory model;  // called anew for every prediction of memory
  Batches batches;
  Precision precision = Precision::fp32;
  Strategy strategy = Strategy::fused;
  Recompute recompute = Recompute::none;
  OnOom on_oom = OnOom::fail;
  int64_t epochs = 1;
  std::optional<int64_t> steps;  // fewer optimizer steps than the epochs have
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
  // What else makes two runs the same, by name, as the sizes of the model: a run does not go on
  // from a checkpoint that differs in it.
  Metadata identity;

  LossScale chosen_loss_scale() const;
  // That of beta2_half_life for this effective batch, else beta2 or the optimizer's own.
  double chosen_beta2() const;
  // Optimizer steps over so many samples if no window is skipped; never more are taken.
  int64_t total_steps(int64_t samples) const;
};

// Throws Error unless 1 <= micro <= effective, for accumulation with step_in_backward, and without
// a model.
void check_options(const TrainingOptions& options);

}  // namespace accrue
