#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fonts/zi2zi.h"
#include "job/load_network.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// A generator with its weights (--weights), and the data set that it draws from, on the cpu.
struct LoadedGenerator : LoadedNetwork {
  Datasets data;
  Device device;

  const Zi2ziGenerator& network() const { return Zi2ziGenerator::of(*model); }
};
// Throws Error for weights of anything else, and for data without glyphs.
LoadedGenerator load_generator(const Request& options, const Notices& notices);
// Loads a generator from weights alone. Their file says the shape of the images and the number of
// styles; the data sets have no fields. Throws Error also if the file does not say it.
LoadedGenerator load_generator_alone(const Request& options, const Notices& notices);

// The settings of commands that draw: the weights, the data and the machine.
Settings drawing_settings(Request& options);

// `accrue font draw`: a sheet of characters in a style, with sources, drawings and targets; or a
// sheet of steps between two styles, with the first at the top and the second at the bottom.
struct FontDrawOptions {
  std::string text;                  // characters of the data set
  bool all = false;                  // all held-out characters
  std::string style;                 // empty: the first
  std::vector<std::string> between;  // two styles
  int64_t steps = 8;                 // from one to the other, both included
  std::optional<uint64_t> dropout_seed;
  std::string out = "sheet.png";
};
Settings settings_of(FontDrawOptions& asked, Request& options);
void draw_font(const Request& options, const FontDrawOptions& asked, const Notices& notices);

}  // namespace accrue
