#pragma once

#include <memory>
#include <vector>

#include "apps/cli/load_network.h"
#include "apps/cli/options.h"
#include "data/png.h"
#include "data/samples.h"

namespace accrue::app {

// A generator with its weights (--weights), and the data set that it draws from, on the cpu.
struct LoadedGenerator : LoadedNetwork {
  Datasets data;
  Device device;

  const Zi2ziGenerator& network() const { return dynamic_cast<const Zi2ziGenerator&>(*model); }
};
// Throws Error for weights of anything else, and for data without glyphs.
LoadedGenerator load_generator(const Options& options);
// That of weights alone, whose file says of which images and of how many styles it is: the data
// sets have no fields. Throws Error also where it does not say that.
LoadedGenerator load_generator_alone(const Options& options);

// The settings of a command that draws: the weights, the data and the machine.
Settings drawing_settings(Options& options);

// Images [N, 1, S, S] of pixels from -1 to 1 as their bytes, on the cpu whatever device and
// floating dtype they are of.
std::vector<GrayImage> to_images(const Tensor& images);

// Some samples of a data set on the cpu, by their numbers, for a network that computes in `dtype`.
Samples pick(const Dataset& data, const std::vector<int32_t>& samples, DType dtype);

// What a generator on `device` draws of such samples' sources in their styles, as many at a time as
// there is memory for, at most `most`: drawings [N, 1, S, S] f32 on the cpu.
Tensor draw(const Zi2ziGenerator& network, const Samples& samples, Device device, int64_t most);

// Sources, drawings and targets, one below the other (data/glyph_sheet.h).
GrayImage sheet_of(const Samples& samples, const Tensor& drawn);

}  // namespace accrue::app
