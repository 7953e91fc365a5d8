#include "apps/fonts/domain.h"

#include <CLI/CLI.hpp>

#include "apps/cli/ranks.h"
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
  Options options;
  FontDrawOptions draw;
  FontExportOptions write;
};

// A training of zi2zi with what its authors train it: Adam's beta1 0.5, weights of N(0, 0.02).
Options font_defaults() {
  Options options;
  options.model_name = Fonts().models().front().name;
  options.network.init = InitScheme::normal;
  options.beta1 = 0.5;
  return options;
}

void add_font_commands(CommandLine& line) {
  const auto asked = std::make_shared<FontCommands>();
  Options& options = asked->options;
  options = font_defaults();
  CLI::App& font = line.add_group("font", "Draw the characters of one font in another's style");
  // Every command's function keeps `asked` alive.
  const auto add = [&](const std::string& name, const std::string& description,
                       const Settings& settings, const std::function<void()>& work,
                       std::initializer_list<const char*> needed = {}) {
    require(line.add(font, name, description, settings, options, [asked, work] { work(); }),
            needed);
  };
  const Settings of_prepare = settings_of(asked->prepare);
  line.known.append(of_prepare);
  require(line.add(font, "prepare", "Pairs of glyphs from font files", of_prepare, line.options(),
                   [asked] { prepare_font(asked->prepare); }),
          {"--source", "--target", "--chars", "--out"});
  add("train", "Train a generator and a discriminator",
      settings_of(options).settled("model").without({"hold-out", "skip-bad", "cache", "freeze"}),
      [&options] {
        with_ranks(options, [&] {
          with_advice([&] { return advice_for_training(options); }, [&] { train(options); });
        });
      });
  const Settings of_draw = settings_of(asked->draw, options);
  line.known.append(of_draw);
  add("draw", "Characters in a style, as a sheet", of_draw,
      [&options, &draw = asked->draw] {
        with_advice(advice_for_evaluation, [&] { draw_font(options, draw); });
      },
      {"--weights"});
  add("score", "How well held-out characters are drawn", font_score_settings(options),
      [&options] { with_advice(advice_for_evaluation, [&] { score_font(options); }); },
      {"--weights"});
  add("export", "A font file of characters drawn in a style", settings_of(asked->write, options),
      [&options, &write = asked->write] {
        with_advice(advice_for_evaluation, [&] { export_font(options, write); });
      },
      {"--weights", "--font", "--chars", "--out"});
}

std::unique_ptr<Watcher> watch(const Options& options, Trainer& trainer, RunLog& log,
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
          .watch = watch,
          .about_machine = about_machine};
}

}  // namespace accrue::app
