#include "fonts/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ranges>

#include "data/atomic_file.h"
#include "fonts/characters.h"
#include "fonts/draw.h"
#include "fonts/drawn_font.h"
#include "fonts/glyph_drawings.h"
#include "fonts/glyphs.h"

namespace accrue {
namespace {

// A style of the network, and the font and layout of the glyphs that it learnt, if known.
struct ChosenStyle {
  int32_t index = 0;
  std::string name;
  std::optional<GlyphFont> font;
  fonts::GlyphLayout layout = fonts::GlyphLayout::bbox;
};

ChosenStyle style_of_manifest(const GlyphManifest& manifest, const Zi2ziOptions& network,
                              const std::string& data, const std::string& asked) {
  check(manifest.size == network.size &&
            static_cast<int64_t>(manifest.styles.size()) == network.styles,
        "{} has glyphs of {} pixels in {}, but the weights are of a network for {} pixels and {}: "
        "expected the data set that it was trained on",
        data, manifest.size, counted(int64_t(manifest.styles.size()), "style"), network.size,
        counted(network.styles, "style"));
  check(!asked.empty() || network.styles == 1, "--style is not given: expected one of {}",
        manifest.style_names());
  const int32_t index = asked.empty() ? 0 : manifest.style_number(asked);
  const GlyphStyle& style = manifest.styles[static_cast<size_t>(index)];
  const auto layout = fonts::glyph_layout_names().find(manifest.layout);
  check(layout != fonts::glyph_layout_names().end(),
        "{} has its glyphs placed by '{}': expected one of {}", data, manifest.layout,
        fmt::join(fonts::glyph_layout_names() | std::views::keys, ", "));
  return {index, style.name, style.font, layout->second};
}

// Without a data set, styles have numbers.
ChosenStyle style_by_number(const Zi2ziOptions& network, const std::string& asked,
                            fonts::GlyphLayout layout) {
  if (asked.empty()) {
    check(network.styles == 1,
          "the network draws {} styles: expected --data with the directory it was trained on and "
          "--style with a name, or --style with a number from 0 to {}",
          network.styles, network.styles - 1);
    return {0, "a learnt style", {}, layout};
  }
  const bool is_number = asked.size() < 6 && asked.find_first_not_of("0123456789") == asked.npos;
  check(is_number && std::stoll(asked) < network.styles,
        "there is no style '{}': without --data expected the number of one, from 0 to {}", asked,
        network.styles - 1);
  return {static_cast<int32_t>(std::stoll(asked)), "style " + asked, {}, layout};
}

ChosenStyle choose_style(const LoadedGenerator& generator, const fonts::Face& source,
                         const Request& options, const FontExportOptions& asked,
                         const Notices& notices) {
  const Zi2ziOptions& network = generator.network().options();
  if (options.data.empty()) return style_by_number(network, asked.style, asked.layout);
  check(holds_glyphs(options.data),
        "{} has no manifest.json: expected a directory of accrue font prepare", options.data);
  const GlyphManifest manifest = read_glyph_manifest(options.data);
  ChosenStyle style = style_of_manifest(manifest, network, options.data, asked.style);
  check(!options.given.contains("layout") || asked.layout == style.layout,
        "--layout differs from the layout of {}, {}: leave it out", options.data, manifest.layout);
  if (const std::string& name = source.about().name; manifest.source.name != name)
    notices.warn("the network has learnt to draw from {}, not from {}: expect worse glyphs",
                 manifest.source.name, name);
  return style;
}

// Draws characters that the source has and adds the glyphs to the font. Draws some at a time, since
// images take more memory than outlines. Returns the characters whose drawing is a blank page.
std::u32string draw_all(fonts::TrueTypeFont& font, const fonts::Face& source,
                        const std::u32string& characters, const LoadedGenerator& generator,
                        const ChosenStyle& style, int64_t micro_batch,
                        const std::function<void(size_t done, size_t total)>& progress) {
  constexpr size_t at_a_time = 256;
  const int64_t S = generator.network().options().size;
  std::u32string blank;
  for (size_t begin = 0; begin < characters.size(); begin += at_a_time) {
    const std::u32string some = characters.substr(begin, at_a_time);
    std::vector<GrayImage> sources;
    for (const char32_t code : some) sources.push_back(source.draw(code, S, style.layout).value());
    const Samples samples =
        glyph_samples(sources, style.index, generator.parameters.compute_dtype());
    const Tensor drawn = draw_glyphs(generator.network(), samples, generator.device, micro_batch);
    for (fonts::TrueTypeFont::Glyph& glyph :
         fonts::glyphs_after(source, some, to_images(drawn), style.layout)) {
      if (glyph.outline.empty()) blank += glyph.code;
      else font.glyphs.push_back(std::move(glyph));
    }
    if (progress) progress(begin + some.size(), characters.size());
  }
  return blank;
}

// The time at which the weights were written, in seconds since 1970. A font with this date is the
// same each time that the command writes it.
int64_t date_of(const std::string& weights) {
  using namespace std::chrono;
  const auto written = file_clock::to_sys(std::filesystem::last_write_time(weights));
  return duration_cast<seconds>(written.time_since_epoch()).count();
}

std::string in_short(const std::string& licence) {
  return licence_in_short(licence, "says nothing of its licence");
}

}  // namespace

Settings settings_of(FontExportOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s = drawing_settings(options).without({"data", "image-size"});
  s.group("Font")
      .add(options.data, {"data", no_result,
                          "The directory of glyphs that the network was trained on", reads("DIR")})
      .add(asked.font,
           {"font", no_result, "The source font; FILE.ttc#N for a face of several", reads("FONT")})
      .add(asked.characters,
           {"chars", no_result, "gb2312 (its 6763 hanzi), a file of UTF-8, or the characters",
            reads("gb2312|FILE|TEXT")})
      .add(asked.style, {"style", no_result, "The style to draw them in; without --data its number",
                         "NAME|N", "the only one"})
      .add(asked.layout, fonts::glyph_layout_names(),
           {"layout", no_result,
            "Without --data: how glyphs were placed for the network, as for font prepare"})
      .add(asked.name, {"name", no_result, "The name of the new font's family", "TEXT",
                        "that of the source, and the style's"})
      .add(asked.out, {.name = "out",
                       .decides = no_result,
                       .help = "The font to write",
                       .takes = writes("FILE.ttf"),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void export_font(const Request& options, const FontExportOptions& asked, const Notices& notices,
                 const std::function<void(size_t done, size_t total)>& progress) {
  fonts::require_potrace();
  check_writable(asked.out);
  const fonts::Face source(asked.font);
  std::u32string characters, missing;
  const LoadedGenerator generator = load_generator_alone(options, notices);
  const ChosenStyle style = choose_style(generator, source, options, asked, notices);
  const int64_t S = generator.network().options().size;
  const std::u32string wanted = fonts::characters_of(asked.characters);
  for (const char32_t code : wanted)
    (source.draw(code, S, style.layout) ? characters : missing) += code;
  check(!characters.empty(),
        "{} has none of the {} that are asked for: expected others, or another font",
        source.about().file, counted(int64_t(wanted.size()), "character"));

  const fonts::FontFacts facts = source.facts();
  const std::string family = facts.family.empty() ? "Unnamed" : facts.family;
  const GlyphFont& about = source.about();
  std::string description = fmt::format(
      "Drawn by accrue from {} ({}) in {}", about.name, in_short(about.licence),
      style.font
          ? fmt::format("the style of {} ({})", style.font->name, in_short(style.font->licence))
          : style.name);
  fonts::TrueTypeFont font = fonts::font_after(
      source, asked.name.empty() ? fmt::format("{} in {}", family, style.name) : asked.name,
      description);
  font.created = date_of(options.init);
  const size_t spaces = font.glyphs.size();
  const std::u32string blank =
      draw_all(font, source, characters, generator, style, options.micro_batch, progress);
  check(font.glyphs.size() > spaces,
        "the network draws nothing but blank pages: it needs more training");
  write_text_atomically(asked.out, fonts::encode_truetype(font));

  const auto count = [](const std::u32string& each) {
    return counted(int64_t(each.size()), "character");
  };
  notices.say("{}: {}, {}", asked.out, font.full_name,
              counted(int64_t(font.glyphs.size() - spaces), "glyph"));
  if (!missing.empty())
    notices.say("{} left out, which the font lacks: {}", count(missing), shortened(missing));
  if (!blank.empty())
    notices.say("{} left out, drawn as a blank page: {}", count(blank), shortened(blank));
  notices.say("licence of the source: {}", in_short(about.licence));
  if (style.font) notices.say("licence of the style: {}", in_short(style.font->licence));
}

}  // namespace accrue
