#include "apps/fonts/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/commands/train.h"
#include "apps/domains.h"
#include "fonts/domain.h"
#include "fonts/draw.h"
#include "fonts/export.h"
#include "fonts/glyph_pairs.h"
#include "fonts/outline.h"
#include "fonts/samples.h"
#include "fonts/score.h"
#include "job/memory_advice.h"

namespace accrue::app {
namespace {

// The options of all font commands.
struct FontCommands {
  fonts::GlyphPairsOptions prepare;
  Request options{domains_of_program()};
  FontDrawOptions draw;
  FontExportOptions write;
};

// A training of zi2zi with the settings of its authors: Adam's beta1 is 0.5, initial weights are
// drawn from N(0, 0.02).
Request font_defaults() {
  Request options{domains_of_program()};
  options.model_name = Fonts().models().front().name;
  options.network.init = InitScheme::normal;
  options.beta1 = 0.5;
  return options;
}

void prepare(const fonts::GlyphPairsOptions& asked) {
  say("{}\n", fonts::describe(fonts::draw_glyph_pairs(asked), asked.out));
}

void score(const Request& options) {
  check_output(options.json);
  const FontScores scores = score_font(options, spoken());
  if (!options.json.empty()) write_output(options.json, scores.json() + "\n");
}

// On a terminal, shows a line with the number of characters drawn, and removes it after the last.
class DrawnSoFar {
 public:
  DrawnSoFar() = default;
  DrawnSoFar(const DrawnSoFar&) = delete;
  DrawnSoFar& operator=(const DrawnSoFar&) = delete;
  ~DrawnSoFar() { clear(); }
  void show(size_t done, size_t total) {
    if (!draws_over(STDERR_FILENO)) return;
    say_error("\r\033[K{} of {} drawn", done, total);
    is_shown_ = true;
    if (done == total) clear();
  }

 private:
  void clear() {
    if (is_shown_) say_error("\r\033[K");
    is_shown_ = false;
  }
  bool is_shown_ = false;
};

void write_font(const Request& options, const FontExportOptions& asked) {
  DrawnSoFar line;
  export_font(options, asked, spoken(), [&](size_t done, size_t total) { line.show(done, total); });
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
            .work = [asked] { prepare(asked->prepare); },
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
            .advice = [asked] { return advice_for_training(asked->options, spoken()); },
            .is_shared = true},
           options);
  const Settings of_draw = settings_of(asked->draw, options);
  line.known.append(of_draw);
  line.add(font,
           {.name = "draw",
            .description = "Characters in a style, as a sheet",
            .settings = of_draw,
            .work = [asked] { draw_font(asked->options, asked->draw, spoken()); },
            .needed = {"--weights"},
            .advice = advice_for_evaluation},
           options);
  line.add(font,
           {.name = "score",
            .description = "How well held-out characters are drawn",
            .settings = font_score_settings(options),
            .work = [asked] { score(asked->options); },
            .needed = {"--weights"},
            .advice = advice_for_evaluation},
           options);
  line.add(font,
           {.name = "export",
            .description = "A font file of characters drawn in a style",
            .settings = settings_of(asked->write, options),
            .work = [asked] { write_font(asked->options, asked->write); },
            .needed = {"--weights", "--font", "--chars", "--out"},
            .advice = advice_for_evaluation},
           options);
}

}  // namespace

DomainCommands fonts_commands() { return {.own = add_font_commands}; }

}  // namespace accrue::app
