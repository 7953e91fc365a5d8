#include "fonts/draw.h"

#include "data/atomic_file.h"
#include "data/image_size.h"
#include "data/safetensors.h"
#include "fonts/domain.h"
#include "fonts/glyph_catalogue.h"
#include "fonts/glyph_drawings.h"
#include "fonts/glyphs.h"
#include "job/load_data.h"
#include "job/machine.h"

namespace accrue {
namespace {

// Throws Error unless the weights are a generator's.
void check_generator(const Request& options) {
  check(!options.init.empty(),
        "there is nothing to draw with: expected --weights FILE.safetensors");
  check(options.domains.of_model_as<Fonts>(options.model_name) != nullptr,
        "{} holds weights of a network {}: expected a generator's, as accrue font train --save "
        "writes them",
        options.init, options.model_name);
}

}  // namespace

LoadedGenerator load_generator(const Request& options, const Notices& notices) {
  const Device device = apply_machine_settings(options, notices);
  check_generator(options);
  Datasets data = load_data(options, DataUse::training, notices);
  const SampleSpec sample = options.sample_in(data.train);
  return {load_network(options, sample, device), std::move(data), device};
}

LoadedGenerator load_generator_alone(const Request& options, const Notices& notices) {
  const Device device = apply_machine_settings(options, notices);
  check_generator(options);
  const Metadata said = read_safetensors_metadata(options.init);
  check(SampleSpec::is_said(said),
        "{} does not say the size of the images and the number of styles: expected weights "
        "that accrue font train --save wrote",
        options.init);
  return {load_network(options, options.sample, device), {}, device};
}

Settings drawing_settings(Request& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("A generator's, as font train saves them"))
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Glyphs in memory at a time",
                                 .range = above_zero,
                                 .asked_by = AskedBy::most_runs,
                                 .elsewhere = called_batch("the glyphs in memory")});
  return s.append(all.only({"data", "image-size", "precision"}))
      .append(all.in({"Machine"}).where(acts_on_answers));
}

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
                           .help = "Two styles to draw the steps between",
                           .takes = "NAME,NAME",
                           .excludes = "style"})
      .add(asked.steps, {.name = "steps",
                         .decides = no_result,
                         .help = "Steps from one style to the other, both included",
                         .range = {2, 1000},
                         .needs = "between"})
      .add(asked.dropout_seed, {.name = "dropout-seed",
                                .decides = no_result,
                                .help = "Draw with dropout: each seed gives another variation",
                                .unset = "no dropout"})
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The sheet",
                       .takes = writes("FILE.png", Path::sample),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void draw_font(const Request& options, const FontDrawOptions& asked, const Notices& notices) {
  check(asked.all != !asked.text.empty(),
        "nothing to draw is given: expected --text TEXT or --all");
  check(asked.between.empty() || asked.between.size() == 2,
        "--between has {}: expected two styles, with a comma between them",
        counted(int64_t(asked.between.size()), "style"));
  check(asked.text.empty() || holds_glyphs(options.data),
        "the built-in strokes are no characters of a script: expected --all instead of --text, or "
        "--data with a directory of accrue font prepare");
  check_writable(asked.out);
  const LoadedGenerator generator = load_generator(options, notices);
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
  notices.say("{}: {}, {} pixels (height x width)", asked.out, counted(samples.size(), "character"),
              height_by_width({image.height, image.width}));
}

}  // namespace accrue
