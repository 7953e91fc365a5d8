#include "job/about_run.h"

#include <nlohmann/json.hpp>

namespace accrue {

nlohmann::ordered_json about_run(const Request& request, std::optional<Batches> batches,
                                 Device device) {
  nlohmann::ordered_json about{{"command", "train"},
                               {"model", request.model_title()},
                               {"data", request.data_name()},
                               {"device", name(device)},
                               {"strategy", name_in(strategy_names(), request.strategy)},
                               {"recompute", name_in(recompute_names(), request.recompute)},
                               {"optimizer", name_in(optimizer_names(), request.optimizer)}};
  if (batches) {
    about["batches"] = batches->describe();
    about["micro_batch"] = batches->micro;
    about["effective_batch"] = batches->effective;
    if (batches->piece > 0) about["sequence_piece"] = batches->piece;
  }
  return about;
}

}  // namespace accrue
