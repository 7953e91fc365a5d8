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
// Loads a generator from weights alone, whose file says which images and how many styles it is for:
// the data sets have no fields. Throws Error also where it does not say that.
LoadedGenerator load_generator_alone(const Request& options, const Notices& notices);

// The settings of what draws: the weights, the data and the machine.
Settings drawing_settings(Request& options);

// `accrue font draw`: characters in a style, as a sheet of sources, drawings and targets; or what
// lies between two styles, from one above to the other below.
struct FontDrawOptions {
  std::string text;                  // characters of the data set
  bool all = false;                  // all that were held out
  std::string style;                 // empty: the first
  std::vector<std::string> between;  // two styles
  int64_t steps = 8;                 // from one to the other, both included
  std::optional<uint64_t> dropout_seed;
  std::string out = "sheet.png";
};
Settings settings_of(FontDrawOptions& asked, Request& options);
void draw_font(const Request& options, const FontDrawOptions& asked, const Notices& notices);

}  // namespace accrue
