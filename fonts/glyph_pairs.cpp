#include "fonts/glyph_pairs.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "data/new_directory.h"
#include "fonts/characters.h"

namespace accrue::fonts {
namespace {

namespace fs = std::filesystem;

// "ukai" of ukai.ttc, "ukai-2" of ukai.ttc#2 or of a second ukai.
std::string style_name(const GlyphFont& font, const std::vector<GlyphStyle>& styles) {
  std::string stem = fs::path(font.file).stem().string();
  for (char& c : stem)
    if (static_cast<unsigned char>(c) <= ' ' || c == '.') c = '-';
  if (font.face > 0) stem += fmt::format("-{}", font.face);
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(styles, name, &GlyphStyle::name) != styles.end();
  };
  std::string name = stem;
  for (int i = 2; taken(name); ++i) name = fmt::format("{}-{}", stem, i);
  return name;
}

// The source font and then the targets.
std::vector<Face> open_fonts(const GlyphPairsOptions& options) {
  check(!options.targets.empty(), "there is no font to learn from: expected one target or more");
  std::vector<Face> faces;
  faces.emplace_back(options.source);
  for (const std::string& target : options.targets) faces.emplace_back(target);
  return faces;
}

GrayImage beside(const GrayImage& source, const GrayImage& target) {
  const int64_t S = source.height;
  GrayImage pair(S, 2 * S);
  for (int64_t y = 0; y < S; ++y) {
    std::copy_n(source.pixels.begin() + y * S, S, pair.pixels.begin() + y * 2 * S);
    std::copy_n(target.pixels.begin() + y * S, S, pair.pixels.begin() + y * 2 * S + S);
  }
  return pair;
}

// The glyphs of a character in every font, or the files of the fonts that lack it.
struct Drawn {
  std::vector<GrayImage> images;
  std::vector<std::string> missing;
};

Drawn draw_in_all(const std::vector<Face>& faces, char32_t code, const GlyphPairsOptions& options) {
  Drawn drawn;
  for (const Face& face : faces) {
    std::optional<GrayImage> image = face.draw(code, options.size, options.layout);
    if (image) drawn.images.push_back(std::move(*image));
    else drawn.missing.push_back(face.about().file);
  }
  return drawn;
}

// Writes the pairs of the characters, up to the limit, and lists them in the manifest.
void draw_pairs(const NewDirectory& folder, GlyphManifest& manifest, const std::vector<Face>& faces,
                const GlyphPairsOptions& options) {
  const size_t limit = options.limit ? static_cast<size_t>(*options.limit) : SIZE_MAX;
  for (const char32_t code : characters_of(options.characters)) {
    if (manifest.characters.size() == limit) break;
    const Drawn drawn = draw_in_all(faces, code, options);
    if (!drawn.missing.empty()) {
      manifest.missing.push_back({code, drawn.missing});
      continue;
    }
    manifest.characters.push_back({code, is_held_out(code)});
    for (size_t s = 0; s < manifest.styles.size(); ++s)
      folder.write(glyph_pair_path(folder.path(), manifest.styles[s].name, code),
                   encode_png(beside(drawn.images[0], drawn.images[s + 1])));
  }
  std::ranges::sort(manifest.characters, {}, &GlyphCharacter::code);
  std::ranges::sort(manifest.missing, {}, &MissingCharacter::code);
}

void check_splits(const GlyphManifest& manifest, const std::vector<Face>& faces) {
  if (manifest.characters.empty()) {
    std::string counts;
    for (const Face& face : faces) {
      const auto lacks = [&](const MissingCharacter& each) {
        return std::ranges::find(each.fonts, face.about().file) != each.fonts.end();
      };
      const auto lacking = std::ranges::count_if(manifest.missing, lacks);
      counts += fmt::format("{}{} has {}", counts.empty() ? "" : ", ", face.about().file,
                            static_cast<int64_t>(manifest.missing.size()) - lacking);
    }
    fail("no character is in every font: of the {} asked for {}", manifest.missing.size(), counts);
  }
  const size_t tested = manifest.characters_of(Split::test).size();
  check(tested > 0 && tested < manifest.characters.size(),
        "{} of the {} that all fonts have would be held out for the test, which takes about a "
        "tenth: expected more characters",
        tested == 0 ? "none" : "all", counted(int64_t(manifest.characters.size()), "character"));
}

// 2000 as "2,000".
std::string with_commas(size_t number) {
  std::string text = fmt::format("{}", number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string describe_font(const std::string& role, const GlyphFont& font) {
  return fmt::format("{}: {} ({}{}), {}", role, font.name, font.file,
                     font.face > 0 ? fmt::format("#{}", font.face) : "",
                     licence_in_short(font.licence, "without a licence in it"));
}

}  // namespace

Settings settings_of(GlyphPairsOptions& options) {
  constexpr Decides result = Decides::result;
  Settings s;
  s.group("Fonts")
      .add(options.source,
           {"source", result, "The font to draw from; FILE.ttc#N for a face of several",
            reads("FONT")})
      .add(options.targets,
           {"target", result, "The font to learn, or several: a style each", reads("FONT")})
      .add(options.characters,
           {"chars", result, "gb2312 (its 6763 hanzi), a file of UTF-8, or the characters",
            reads("TEXT|FILE")})
      .add(options.limit, {.name = "limit",
                           .decides = result,
                           .help = "Take only the first N characters that all fonts have",
                           .takes = "N",
                           .range = above_zero});
  s.group("Output")
      .add(options.size, {.name = "size",
                          .decides = result,
                          .help = "Height and width of a glyph in pixels",
                          .range = {8, 1024}})
      .add(options.layout, glyph_layout_names(),
           {"layout", result,
            "bbox: each glyph fills the square; zi2zi: all of one size, as zi2zi placed them"})
      .add(options.out, {.name = "out",
                         .decides = result,
                         .help = "The directory to make",
                         .takes = writes("DIR", Path::answers),
                         .asked_by = AskedBy::most_runs});
  return s;
}

GlyphManifest draw_glyph_pairs(const GlyphPairsOptions& options) {
  const std::vector<Face> faces = open_fonts(options);
  NewDirectory folder(options.out);
  GlyphManifest manifest;
  manifest.size = options.size;
  for (const auto& [name, layout] : glyph_layout_names())
    if (layout == options.layout) manifest.layout = name;
  manifest.source = faces[0].about();
  for (size_t f = 1; f < faces.size(); ++f) {
    const GlyphFont& font = faces[f].about();
    manifest.styles.push_back({style_name(font, manifest.styles), font});
    fs::create_directory(folder.path() / manifest.styles.back().name);
  }
  draw_pairs(folder, manifest, faces, options);
  check_splits(manifest, faces);
  write_glyph_manifest(folder.path(), manifest);
  folder.commit();
  return manifest;
}

std::string describe(const GlyphManifest& manifest, const std::string& directory) {
  std::string text = fmt::format(
      "{} characters, {}, {} held out, {}x{}, to {}\n{}", with_commas(manifest.characters.size()),
      counted(static_cast<int64_t>(manifest.styles.size()), "style"),
      with_commas(manifest.characters_of(Split::test).size()), manifest.size, manifest.size,
      directory, describe_font("source", manifest.source));
  for (const GlyphStyle& style : manifest.styles)
    text += "\n" + describe_font("style " + style.name, style.font);
  std::u32string missing;
  for (const MissingCharacter& each : manifest.missing) missing += each.code;
  if (!missing.empty())
    text +=
        fmt::format("\n{} left out, which some font lacks: {}",
                    counted(static_cast<int64_t>(missing.size()), "character"), shortened(missing));
  return text;
}

}  // namespace accrue::fonts
