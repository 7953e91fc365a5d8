#pragma once

#include <memory>

#include "fonts/zi2zi.h"
#include "job/load_network.h"
#include "job/request.h"

namespace accrue::app {

// A generator with its weights (--weights), and the data set that it draws from, on the cpu.
struct LoadedGenerator : LoadedNetwork {
  Datasets data;
  Device device;

  const Zi2ziGenerator& network() const { return Zi2ziGenerator::of(*model); }
};
// Throws Error for weights of anything else, and for data without glyphs.
LoadedGenerator load_generator(const Request& options);
// Loads a generator from weights alone, whose file says which images and how many styles it is for:
// the data sets have no fields. Throws Error also where it does not say that.
LoadedGenerator load_generator_alone(const Request& options);

// The settings of a command that draws: the weights, the data and the machine.
Settings drawing_settings(Request& options);

}  // namespace accrue::app
