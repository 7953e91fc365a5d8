#pragma once

#include <memory>

#include "core/inside.h"
#include "job/request.h"

namespace accrue {

struct LoadedNetwork {
  std::unique_ptr<Layer> model;
  Parameters parameters;
};
// Loads the weights of Request::init into a network on a device, without gradients: it can answer
// but not train. Throws Error as load_weights() does.
LoadedNetwork load_network(const Request& request, const SampleSpec& sample, Device device);

}  // namespace accrue
