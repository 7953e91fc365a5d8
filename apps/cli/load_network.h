#pragma once

#include <memory>

#include "apps/cli/options.h"

namespace accrue::app {

struct LoadedNetwork {
  std::unique_ptr<Layer> model;
  Parameters parameters;
};
// A network with the weights of a file (Options::init), on a device, to answer and not to be
// trained: without gradients. Throws Error as load_weights() does.
LoadedNetwork load_network(const Options& options, const ModelOptions& network, Device device);

}  // namespace accrue::app
