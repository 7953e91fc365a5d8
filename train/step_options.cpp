#include "train/step_options.h"

#include "core/inside.h"

namespace accrue {

Settings settings_of(StepOptions& o) { return detail::table_of(o); }

const std::map<std::string, OptimizerKind>& detail::optimizer_names() {
  static const std::map<std::string, OptimizerKind> names{{"adam", OptimizerKind::adam},
                                                          {"adamw", OptimizerKind::adamw},
                                                          {"sgd", OptimizerKind::sgd},
                                                          {"lion", OptimizerKind::lion}};
  return names;
}

const std::map<std::string, ScheduleOptions::Kind>& detail::schedule_names() {
  using Kind = ScheduleOptions::Kind;
  static const std::map<std::string, Kind> names{{"constant", Kind::constant},
                                                 {"step", Kind::step},
                                                 {"cosine", Kind::cosine},
                                                 {"one-cycle", Kind::one_cycle},
                                                 {"plateau", Kind::plateau}};
  return names;
}

LossScale StepOptions::chosen_loss_scale(Precision precision) const {
  const bool dynamic = loss_scale.value_or(precision == Precision::fp16 ? dynamic_loss_scale : 1) ==
                       dynamic_loss_scale;
  return dynamic ? dynamic_scale : LossScale(loss_scale.value_or(1));
}

double StepOptions::chosen_beta2(int64_t effective_batch) const {
  if (beta2_half_life) return beta2_of_half_life(*beta2_half_life, effective_batch);
  return beta2.value_or(optimizer == OptimizerKind::lion ? 0.99 : 0.999);
}

std::unique_ptr<Optimizer> StepOptions::make_optimizer(const Parameters& parameters,
                                                       int64_t effective_batch, Owned owned) const {
  const double beta2_used = chosen_beta2(effective_batch);
  const double decay = weight_decay.value_or(optimizer == OptimizerKind::adamw ? 0.01 : 0);
  const AdamOptions adam_options{beta1, beta2_used, eps, decay};
  switch (optimizer) {
    case OptimizerKind::adam: return adam(parameters, adam_options, owned);
    case OptimizerKind::adamw: return adamw(parameters, adam_options, owned);
    case OptimizerKind::lion: return lion(parameters, {beta1, beta2_used, decay}, owned);
    case OptimizerKind::sgd: break;
  }
  return sgd(parameters, {momentum, decay, nesterov}, owned);
}

}  // namespace accrue
