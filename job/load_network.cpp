#include "job/load_network.h"

#include "train/weights.h"

namespace accrue {

LoadedNetwork load_network(const Request& request, const SampleSpec& sample, Device device) {
  auto model = request.factory(sample)();
  Parameters parameters = place(*model, compute_dtype(request.precision), device, request.seed,
                                GradientStorage::on_demand);
  if (!request.init.empty()) load_weights(request.init, parameters);
  else request.domains.of_model(request.model_name).fill(sample, parameters);
  return {std::move(model), std::move(parameters)};
}

}  // namespace accrue
