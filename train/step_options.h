#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accumulate/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/settings.h"

namespace accrue {

// The optimizers.
enum class OptimizerKind { adam, adamw, sgd, lion };

// The type that a model computes in: that of activations, and of the factors of its products.
// Parameters, gradients, moments and sums are float32, or float64 with fp64, which runs on the CPU
// alone. tf32 is float32 in memory; products on a GPU's tensor cores round their factors to 10
// fraction bits. It takes effect through cuda::allow_tf32().
enum class Precision { fp32, tf32, bf16, fp16, fp64 };

// A value of StepOptions::loss_scale.
inline constexpr double dynamic_loss_scale = -std::numeric_limits<double>::infinity();

namespace detail {

// The names of the choices, for messages and files.
const std::map<std::string, OptimizerKind>& optimizer_names();
const std::map<std::string, ScheduleOptions::Kind>& schedule_names();
template <class Enum>
std::string name_in(const std::map<std::string, Enum>& names, Enum value) {
  for (const auto& [name, candidate] : names)
    if (candidate == value) return name;
  return "?";
}

}  // namespace detail

// How a network's weights step: optimizer, learning rate and loss scale. Each field has a row in
// table_of(), below.
struct StepOptions {
  OptimizerKind optimizer = OptimizerKind::adam;
  ScheduleOptions schedule{};            // its `total` is derived from the run's length
  double beta1 = 0.9;                    // adam, adamw, lion
  std::optional<double> beta2{};         // by default 0.999; for lion 0.99
  double eps = 1e-8;                     // adam, adamw
  double momentum = 0;                   // sgd
  bool nesterov = false;                 // sgd
  std::optional<double> weight_decay{};  // by default 0; for adamw 0.01
  // Parameters that do not decay, by name or by a part of a name between dots. `vectors` means all
  // parameters with one dimension; `none` means none.
  std::vector<std::string> no_decay{};
  // beta2_half_life replaces beta2: the number of samples after which beta2 has decayed a
  // contribution to half.
  std::optional<double> clip_norm{}, ema{}, beta2_half_life{};
  bool noise_scale = false;
  // A number, or dynamic_loss_scale. If not set: dynamic for fp16, whose smallest number is 6e-8,
  // otherwise 1.
  std::optional<double> loss_scale{};
  LossScale dynamic_scale = LossScale::dynamic();

  LossScale chosen_loss_scale(Precision precision) const;
  // The beta2 of beta2_half_life for this effective batch, or else beta2 or the optimizer's
  // default.
  double chosen_beta2(int64_t effective_batch) const;
  // The optimizer that these options describe.
  std::unique_ptr<Optimizer> make_optimizer(const Parameters& parameters, int64_t effective_batch,
                                            detail::Owned owned = {}) const;
};

// The settings of a step by name.
Settings settings_of(StepOptions& o);
// The same table for reading only.
inline Settings settings_of(const StepOptions& o) {
  return settings_of(const_cast<StepOptions&>(o)).read_only();
}

namespace detail {

// The table is beside the fields, so that everything about a setting except its effect is in one
// place. Only settings_of() uses it, so that it is compiled once.
inline Settings table_of(StepOptions& o) {
  constexpr Decides result = Decides::result, no_result = Decides::no_result;
  const std::string dynamic = "dynamic: ";
  using Has = ActsWith::Has;
  const ActsWith with_moments{{"optimizer", {"adam", "adamw", "lion"}}},
      with_sgd{{"optimizer", {"sgd"}}}, with_one_cycle{{"schedule", {"one-cycle"}}},
      with_dynamic = ActsWith{{"loss-scale", {"dynamic"}}} ||
                     ActsWith{{"loss-scale", {""}}, {"precision", {"fp16"}}},
      with_decay = ActsWith{{"weight-decay", {"", "0"}, Has::none_of}} ||
                   ActsWith{{"weight-decay", {""}}, {"optimizer", {"adamw"}}};
  Settings s;
  s.group("Optimizer")
      .add(o.optimizer, optimizer_names(),
           {.name = "optimizer",
            .decides = result,
            .help = "Update rule",
            .asked_by = AskedBy::most_runs})
      .add(o.schedule.base, {.name = "lr",
                             .decides = result,
                             .help = "Learning rate",
                             .costs = Costs::nothing,
                             .asked_by = AskedBy::most_runs,
                             .elsewhere = {{"learning-rate", ""}}})
      .add(o.beta1, {.name = "beta1",
                     .decides = result,
                     .help = "Adam: decay of the first moment; lion: share of the moment",
                     .acts_with = with_moments,
                     .costs = Costs::nothing})
      .add(o.beta2, {.name = "beta2",
                     .decides = result,
                     .help = "Adam: decay of the second moment; lion: of the moment",
                     .unset = "0.999; for lion 0.99",
                     .excludes = "beta2-half-life",
                     .acts_with = with_moments,
                     .costs = Costs::nothing})
      .add(o.beta2_half_life,
           {.name = "beta2-half-life",
            .decides = result,
            .help = "Adam: beta2, as the number of samples after which half is gone",
            .takes = "SAMPLES",
            .acts_with = with_moments,
            .costs = Costs::nothing})
      .add(o.eps, {.name = "eps",
                   .decides = result,
                   .help = "Adam: added to the root of the second moment",
                   .acts_with = {{"optimizer", {"adam", "adamw"}}},
                   .costs = Costs::nothing})
      .add(o.weight_decay,
           {.name = "weight-decay",
            .decides = result,
            .help = "Decay of the weights; adamw and lion do not add it to the gradient",
            .unset = "0; for adamw 0.01",
            .costs = Costs::nothing})
      .add(
          o.no_decay,
          {.name = "no-decay",
           .decides = result,
           .help = "Parameters that do not decay: names or parts of them between dots, such as wpe "
                   "or ln_f.weight; vectors: biases and the weights of norms; none",
           .takes = "NAME,...",
           .unset = "vectors for language models",
           .acts_with = with_decay,
           .costs = Costs::nothing})
      .add(o.momentum,
           {.name = "momentum", .decides = result, .help = "SGD momentum", .acts_with = with_sgd})
      .add_flag(o.nesterov, true,
                {.name = "nesterov",
                 .decides = result,
                 .help = "SGD: Nesterov's momentum",
                 .acts_with = with_sgd,
                 .costs = Costs::nothing})
      .add(o.clip_norm, {"clip-norm", result, "Largest norm of the window's gradient"})
      .add(o.schedule.kind, schedule_names(),
           {.name = "schedule",
            .decides = result,
            .help = "Learning rate over the optimizer steps",
            .costs = Costs::nothing})
      .add(o.schedule.warmup_steps, {.name = "warmup-steps",
                                     .decides = result,
                                     .help = "Linear warm-up, for every schedule",
                                     .costs = Costs::nothing})
      .add(o.schedule.every, {.name = "lr-every",
                              .decides = result,
                              .help = "step: optimizer steps between two reductions",
                              .acts_with = {{"schedule", {"step"}}},
                              .costs = Costs::nothing})
      .add(o.schedule.gamma, {.name = "lr-gamma",
                              .decides = result,
                              .help = "step, plateau: factor of a reduction",
                              .acts_with = {{"schedule", {"step", "plateau"}}},
                              .costs = Costs::nothing})
      .add(o.schedule.floor, {.name = "lr-floor",
                              .decides = result,
                              .help = "step, cosine, plateau: lowest learning rate",
                              .acts_with = {{"schedule", {"step", "cosine", "plateau"}}},
                              .costs = Costs::nothing})
      .add(o.schedule.patience, {.name = "lr-patience",
                                 .decides = result,
                                 .help = "plateau: epochs without a lower loss to wait",
                                 .acts_with = {{"schedule", {"plateau"}}},
                                 .costs = Costs::nothing})
      .add(o.schedule.pct_start, {.name = "lr-rise",
                                  .decides = result,
                                  .help = "one-cycle: share of the steps in which the rate rises",
                                  .acts_with = with_one_cycle,
                                  .costs = Costs::nothing})
      .add(o.schedule.div_factor,
           {.name = "lr-start-divisor",
            .decides = result,
            .help = "one-cycle: the first rate is the learning rate divided by this",
            .acts_with = with_one_cycle,
            .costs = Costs::nothing})
      .add(o.schedule.final_div_factor,
           {.name = "lr-end-divisor",
            .decides = result,
            .help = "one-cycle: the last rate is the first divided by this",
            .acts_with = with_one_cycle,
            .costs = Costs::nothing})
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
      .add(o.dynamic_scale.initial, {.name = "loss-scale-init",
                                     .decides = result,
                                     .help = dynamic + "the initial scale",
                                     .acts_with = with_dynamic,
                                     .costs = Costs::nothing})
      .add(o.dynamic_scale.growth,
           {.name = "loss-scale-growth",
            .decides = result,
            .help = dynamic + "its factor after windows without an overflow",
            .acts_with = with_dynamic,
            .costs = Costs::nothing})
      .add(o.dynamic_scale.interval, {.name = "loss-scale-interval",
                                      .decides = result,
                                      .help = dynamic + "how many such windows in a row it takes",
                                      .acts_with = with_dynamic,
                                      .costs = Costs::nothing})
      .add(o.dynamic_scale.backoff, {.name = "loss-scale-backoff",
                                     .decides = result,
                                     .help = dynamic + "its factor after an overflow",
                                     .acts_with = with_dynamic,
                                     .costs = Costs::nothing})
      .add(o.dynamic_scale.hysteresis, {.name = "loss-scale-hysteresis",
                                        .decides = result,
                                        .help = dynamic + "how many overflows it takes to back off",
                                        .acts_with = with_dynamic,
                                        .costs = Costs::nothing});
  return s;
}

}  // namespace detail

}  // namespace accrue
