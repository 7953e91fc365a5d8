#include "apps/fonts/draw.h"

#include "apps/cli/messages.h"
#include "apps/fonts/generator.h"
#include "data/atomic_file.h"
#include "data/image_size.h"
#include "fonts/glyph_catalogue.h"
#include "fonts/glyph_drawings.h"
#include "fonts/glyph_sheet.h"
#include "fonts/glyphs.h"

namespace accrue::app {
Settings settings_of(FontDrawOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s = drawing_settings(options);
  s.group("Drawing")
      .add(asked.text, {.name = "text",
                        .decides = no_result,
                        .help = "Characters of the data set",
                        .takes = "TEXT",
                        .excludes = "all"})
      .add_flag(asked.all, true,
                {.name = "all",
                 .decides = no_result,
                 .help = "All characters that were held out",
                 .excludes = "text"})
      .add(asked.style,
           {"style", no_result, "The style to draw them in", "NAME", "the first of the data set"})
      .add(asked.between, {.name = "between",
                           .decides = no_result,
                           .help = "Two styles: what lies between them, step by step",
                           .takes = "NAME,NAME",
                           .excludes = "style"})
      .add(asked.steps, {.name = "steps",
                         .decides = no_result,
                         .help = "From one to the other, both included",
                         .range = {2, 1000},
                         .needs = "between"})
      .add(asked.dropout_seed, {.name = "dropout-seed",
                                .decides = no_result,
                                .help = "Draw with dropout: each seed gives another variation",
                                .unset = "no dropout"})
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The sheet",
                       .takes = writes("FILE.png", Path::image),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void draw_font(const Request& options, const FontDrawOptions& asked) {
  check(asked.all != !asked.text.empty(),
        "nothing to draw is given: expected --text TEXT or --all");
  check(asked.between.empty() || asked.between.size() == 2,
        "--between has {}: expected two styles, with a comma between them",
        counted(int64_t(asked.between.size()), "style"));
  check(asked.text.empty() || holds_glyphs(options.data),
        "the built-in strokes are no characters of a script: expected --all instead of --text, or "
        "--data with a directory of accrue font prepare");
  check_writable(asked.out);
  const LoadedGenerator generator = load_generator(options);
  const GlyphCatalogue catalogue(generator.data, options.data);
  const bool between = !asked.between.empty();
  const int32_t style = catalogue.style(between ? asked.between[0] : asked.style);
  const DType dtype = generator.parameters.compute_dtype();
  const auto [samples, characters] =
      asked.all ? catalogue.held_out(style, dtype) : catalogue.find(asked.text, style, dtype);
  const Zi2ziGenerator& network = generator.network();
  std::optional<Variation> variation;
  if (asked.dropout_seed) {
    check(network.is_random(),
          "--dropout-seed: the network has no dropout to draw with: expected one of images of 64 "
          "pixels or more, trained with --g-dropout above 0");
    variation = {*asked.dropout_seed, characters};
  }
  const GrayImage image =
      between ? glyph_sheet(draw_between(network, samples, generator.device, style,
                                         catalogue.style(asked.between[1]), asked.steps, variation),
                            samples.size())
              : sheet_of(samples, draw_glyphs(network, samples, generator.device,
                                              options.micro_batch, variation));
  write_png(asked.out, image);
  say("{}: {}, {} pixels (height x width)\n", asked.out, counted(samples.size(), "character"),
      height_by_width({image.height, image.width}));
}

}  // namespace accrue::app
