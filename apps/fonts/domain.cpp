#include "apps/fonts/domain.h"

#include <CLI/CLI.hpp>

#include "apps/commands/memory_advice.h"
#include "apps/commands/train.h"
#include "apps/fonts/draw.h"
#include "apps/fonts/export.h"
#include "apps/fonts/prepare.h"
#include "apps/fonts/samples.h"
#include "apps/fonts/score.h"
#include "fonts/domain.h"
#include "fonts/outline.h"

namespace accrue::app {
namespace {

// The options of all its commands.
struct FontCommands {
  fonts::GlyphPairsOptions prepare;
  Request options{all_domains()};
  FontDrawOptions draw;
  FontExportOptions write;
};

// A training of zi2zi with what its authors train it: Adam's beta1 0.5, weights of N(0, 0.02).
Request font_defaults() {
  Request options{all_domains()};
  options.model_name = Fonts().models().front().name;
  options.network.init = InitScheme::normal;
  options.beta1 = 0.5;
  return options;
}

void add_font_commands(CommandLine& line) {
  const auto asked = std::make_shared<FontCommands>();
  Request& options = asked->options;
  options = font_defaults();
  CLI::App& font = line.add_group("font", "Draw the characters of one font in another's style");
  const Settings of_prepare = settings_of(asked->prepare);
  line.known.append(of_prepare);
  line.add(font,
           {.name = "prepare",
            .description = "Pairs of glyphs from font files",
            .settings = of_prepare,
            .work = [asked] { prepare_font(asked->prepare); },
            .needed = {"--source", "--target", "--chars", "--out"}},
           line.options());
  line.add(font,
           {.name = "train",
            .description = "Train a generator and a discriminator",
            .settings = settings_of(options)
                            .settled("model")
                            .where([](const Setting& s) { return s.about.data.empty(); })
                            .without({"freeze"}),
            .work = [asked] { train(asked->options); },
            .advice = [asked] { return advice_for_training(asked->options); },
            .is_shared = true},
           options);
  const Settings of_draw = settings_of(asked->draw, options);
  line.known.append(of_draw);
  line.add(font,
           {.name = "draw",
            .description = "Characters in a style, as a sheet",
            .settings = of_draw,
            .work = [asked] { draw_font(asked->options, asked->draw); },
            .needed = {"--weights"},
            .advice = advice_for_evaluation},
           options);
  line.add(font,
           {.name = "score",
            .description = "How well held-out characters are drawn",
            .settings = font_score_settings(options),
            .work = [asked] { score_font(asked->options); },
            .needed = {"--weights"},
            .advice = advice_for_evaluation},
           options);
  line.add(font,
           {.name = "export",
            .description = "A font file of characters drawn in a style",
            .settings = settings_of(asked->write, options),
            .work = [asked] { export_font(asked->options, asked->write); },
            .needed = {"--weights", "--font", "--chars", "--out"},
            .advice = advice_for_evaluation},
           options);
}

std::unique_ptr<Watcher> watch_drawings(const Request& options, Trainer& trainer, RunLog& log,
                                        const Dataset& held_out) {
  return std::make_unique<FontSamples>(options, trainer, log, held_out);
}

std::vector<std::pair<std::string, std::string>> about_machine() {
  try {
    return {{"potrace", fonts::require_potrace()}};
  } catch (const Error&) {
    return {{"potrace", "none (font export runs it: apt install potrace)"}};
  }
}

}  // namespace

ProgramDomain fonts_of_program() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<Fonts>()); },
          .add_own_commands = add_font_commands,
          .watch = watch_drawings,
          .about_machine = about_machine};
}

}  // namespace accrue::app
