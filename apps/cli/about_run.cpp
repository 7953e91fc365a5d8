#include "apps/cli/about_run.h"

#include <nlohmann/json.hpp>

namespace accrue::app {

nlohmann::ordered_json about_run(const Options& options, std::optional<Batches> batches,
                                 Device device) {
  nlohmann::ordered_json about{{"command", "train"},
                               {"model", options.model_title()},
                               {"data", options.data_name()},
                               {"device", name(device)},
                               {"strategy", name_in(strategy_names(), options.strategy)},
                               {"recompute", name_in(recompute_names(), options.recompute)},
                               {"optimizer", name_in(optimizer_names(), options.optimizer)}};
  if (batches) {
    about["batches"] = batches->describe();
    about["micro_batch"] = batches->micro;
    about["effective_batch"] = batches->effective;
    if (batches->piece > 0) about["sequence_piece"] = batches->piece;
  }
  return about;
}

}  // namespace accrue::app
