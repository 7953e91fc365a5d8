#include "apps/cli/load_network.h"

#include "train/weights.h"

namespace accrue::app {

LoadedNetwork load_network(const Options& options, const ModelOptions& network, Device device) {
  auto model = options.factory(network)();
  Parameters parameters = place(*model, compute_dtype(options.precision), device, options.seed,
                                GradientStorage::on_demand);
  load_weights(options.init, parameters);
  return {std::move(model), std::move(parameters)};
}

}  // namespace accrue::app
