#include "train/step_options.h"

namespace accrue {

const std::map<std::string, OptimizerKind>& optimizer_names() {
  static const std::map<std::string, OptimizerKind> names{{"adam", OptimizerKind::adam},
                                                          {"adamw", OptimizerKind::adamw},
                                                          {"sgd", OptimizerKind::sgd},
                                                          {"lion", OptimizerKind::lion}};
  return names;
}

const std::map<std::string, ScheduleOptions::Kind>& schedule_names() {
  using Kind = ScheduleOptions::Kind;
  static const std::map<std::string, Kind> names{{"constant", Kind::constant},
                                                 {"step", Kind::step},
                                                 {"cosine", Kind::cosine},
                                                 {"one-cycle", Kind::one_cycle},
                                                 {"plateau", Kind::plateau}};
  return names;
}

}  // namespace accrue
