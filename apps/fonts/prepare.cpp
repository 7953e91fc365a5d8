#include "apps/fonts/prepare.h"

#include "apps/cli/messages.h"
#include "apps/fonts/listing.h"

namespace accrue::app {
namespace {

// 2000 as "2,000".
std::string with_commas(size_t number) {
  std::string text = fmt::format("{}", number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string describe_font(const std::string& role, const GlyphFont& font) {
  return fmt::format("{}: {} ({}{}), {}\n", role, font.name, font.file,
                     font.face > 0 ? fmt::format("#{}", font.face) : "",
                     font.licence.empty() ? "without a licence in it"
                                          : shortened(from_utf8(font.licence), most_of_licence));
}

void print_summary(const GlyphManifest& manifest, const std::string& out) {
  say("{} characters, {}, {} held out, {}x{}, to {}\n", with_commas(manifest.characters.size()),
      counted(static_cast<int64_t>(manifest.styles.size()), "style"),
      with_commas(manifest.characters_of(Split::test).size()), manifest.size, manifest.size, out);
  say("{}", describe_font("source", manifest.source));
  for (const GlyphStyle& style : manifest.styles)
    say("{}", describe_font("style " + style.name, style.font));
  std::u32string missing;
  for (const MissingCharacter& each : manifest.missing) missing += each.code;
  if (!missing.empty())
    say("{} left out, which some font lacks: {}\n",
        counted(static_cast<int64_t>(missing.size()), "character"),
        shortened(missing, most_listed));
}

}  // namespace

Settings settings_of(fonts::GlyphPairsOptions& pairs) {
  constexpr Decides result = Decides::result;
  Settings s;
  s.group("Fonts")
      .add(pairs.source, {"source", result,
                          "The font to draw from; FILE.ttc#N for a face of several", reads("FONT")})
      .add(pairs.targets,
           {"target", result, "The font to learn, or several: a style each", reads("FONT")})
      .add(pairs.characters,
           {"chars", result, "gb2312 (its 6763 hanzi), a file of UTF-8, or the characters",
            reads("TEXT|FILE")})
      .add(pairs.limit, {.name = "limit",
                         .decides = result,
                         .help = "Take the first so many that all fonts have",
                         .takes = "N",
                         .range = above_zero});
  s.group("Output")
      .add(pairs.size,
           {.name = "size", .decides = result, .help = "Pixels of a side", .range = {8, 1024}})
      .add(pairs.layout, fonts::glyph_layout_names(),
           {"layout", result,
            "bbox: each glyph fills the square; zi2zi: all of one size, as zi2zi placed them"})
      .add(pairs.out, {.name = "out",
                       .decides = result,
                       .help = "The directory to make",
                       .takes = writes("DIR", Path::answers),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void prepare_font(const fonts::GlyphPairsOptions& pairs) {
  print_summary(fonts::draw_glyph_pairs(pairs), pairs.out);
}

}  // namespace accrue::app
