#include "job/load_network.h"

#include "train/weights.h"

namespace accrue {

LoadedNetwork load_network(const Request& request, const ModelOptions& network, Device device) {
  auto model = request.factory(network)();
  Parameters parameters = place(*model, compute_dtype(request.precision), device, request.seed,
                                GradientStorage::on_demand);
  load_weights(request.init, parameters);
  return {std::move(model), std::move(parameters)};
}

}  // namespace accrue
