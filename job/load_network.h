#pragma once

#include <memory>

#include "core/inside.h"
#include "job/request.h"

namespace accrue {

struct LoadedNetwork {
  std::unique_ptr<Layer> model;
  Parameters parameters;
};
// A network with the weights of a file (Request::init), on a device, to answer and not to be
// trained: without gradients. Throws Error as load_weights() does.
LoadedNetwork load_network(const Request& request, const SampleSpec& sample, Device device);

}  // namespace accrue
